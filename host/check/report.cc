// SPDX-License-Identifier: Apache-2.0
//
// How a mistake is told: both accesses, the bytes, and what would have ordered them.
#include <fmt/format.h>

#include <utility>

#include "host/check/order_checker.h"

namespace peal::checking {
namespace {

const char* does(bool write) { return write ? "writes" : "reads"; }

}  // namespace

std::string OrderChecker::who(int index, uint16_t site) const {
  return fmt::format("PE {}: {}", config_.pes[static_cast<size_t>(index)], sites_.text(site));
}

bool OrderChecker::is_news(uint16_t one, uint16_t other) {
  std::string low = sites_.line(one);
  std::string high = sites_.line(other);
  if (high < low) std::swap(low, high);
  const std::lock_guard lock(told_mutex_);
  return told_.emplace(std::move(low), std::move(high)).second;
}

void OrderChecker::tell_conflict(const Touch& touch, const Conflict& conflict) {
  const ShadowSlot other = conflict.other;
  if (!is_news(touch.site, other.site())) return;
  const bool write = (touch.flags & ShadowSlot::kWrite) != 0;
  const int owner = config_.pes[static_cast<size_t>(touch.owner)];
  if (sites_.operation(touch.site) == AccessKind::kFree) {
    return config_.report(fmt::format(
        "{}, of PE {}'s copy of {}, which {} still {}, {} bytes: nothing says that it is complete; "
        "quiet or barrier_all on PE {} before free()",
        who(me_, touch.site), owner, config_.place_of(config_.heap + conflict.begin),
        who(other.pe(), other.site()), does(other.write()), conflict.end - conflict.begin,
        config_.pes[static_cast<size_t>(other.pe())]));
  }
  config_.report(
      fmt::format("{}, {} {} bytes of PE {}, {}, that {}, {}: nothing orders the two; {}",
                  who(me_, touch.site), does(write), conflict.end - conflict.begin, owner,
                  config_.place_of(config_.heap + conflict.begin), who(other.pe(), other.site()),
                  does(other.write()), remedy(touch, other)));
}

std::string OrderChecker::remedy(const Touch& touch, const ShadowSlot& other) const {
  const int pe = config_.pes[static_cast<size_t>(other.pe())];
  const Known known = known_of(touch.owner);
  const bool heard = other.stamp() <= known.done[static_cast<size_t>(other.pe())];
  if (heard) {
    return fmt::format(
        "PE {} told of it before it was complete: put_signal or signal, or fence or quiet before "
        "the p or atomic that tells of it, barrier_all in place of sync_all",
        pe);
  }
  return fmt::format(
      "a signal that PE {} sends behind its access and PE {} waits for, or barrier_all on both, "
      "between the two",
      pe, config_.pe);
}

void OrderChecker::tell_pending(const Pending& pending, uint16_t site, const char* what) {
  if (!is_news(site, pending.site)) return;
  const std::string_view happened = what;
  const std::string memory = in_heap(pending.here, 0, std::make_unique<uint64_t>().get())
                                 ? config_.place_of(pending.here.first)
                                 : fmt::format("memory at {}", fmt::ptr(pending.here.first));
  const std::string name = pending.gets ? "destination" : "source";
  const std::string operation =
      fmt::format("{} {} PE {}", who(me_, pending.site), pending.gets ? "from" : "to", pending.pe);
  if (happened == "changed") {
    return config_.report(
        fmt::format("{}: its source ({}, {} bytes) changed before it was complete, as {} finds; "
                    "wait(ticket) or quiet before it is written",
                    operation, memory, pending.here.bytes, who(me_, site)));
  }
  if (happened == "freed") {
    return config_.report(fmt::format(
        "{}, of memory that {} still uses ({}, {} bytes at home): wait(ticket) or quiet before "
        "free()",
        who(me_, site), operation, memory, pending.here.bytes));
  }
  config_.report(fmt::format(
      "{}: its {} ({}, {} bytes) is {} by {} before it is complete; wait(ticket) or quiet between "
      "the two",
      operation, name, memory, pending.here.bytes, happened, who(me_, site)));
}

}  // namespace peal::checking
