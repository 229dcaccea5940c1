// SPDX-License-Identifier: Apache-2.0
#include "host/failures/waits.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "base/clock.h"
#include "host/contexts/usage_text.h"

namespace peal {
namespace {

const char* sign_of(uint32_t compare) {
  static constexpr const char* kSigns[] = {"==", "!=", ">", ">=", "<", "<="};
  return compare < std::size(kSigns) ? kSigns[compare] : "?";
}

std::string number_in_word(const Wait& wait, uint64_t value) {
  return wait.word_signed != 0 ? fmt::format("{}", static_cast<int64_t>(value))
                               : fmt::format("{}", value);
}

std::string word(const WaitRecord::Body& body, const PlaceOf& place_of) {
  const Wait& wait = body.wait;
  return fmt::format("the word at {} to be {} {}, found {}", place_of(wait.word),
                     sign_of(wait.compare), number_in_word(wait, wait.wanted),
                     number_in_word(wait, body.found));
}

// What the lane waits for, as the object of "waits for".
std::string what(const WaitRecord::Body& body, int queue, const PlaceOf& place_of) {
  const Wait& w = body.wait;
  const auto of_queue = [&](const char* it) {
    return fmt::format("{} queue {} to PE {}", it, queue, w.pe);
  };
  switch (w.kind) {
    case WaitKind::kWord:
      return "(wait_until) " + word(body, place_of);
    case WaitKind::kSignal:
      return "(signal_wait_until) " + word(body, place_of);
    case WaitKind::kBarrier:
      return fmt::format("PE {} to enter barrier {} (sync_all, barrier_all); it is at barrier {}",
                         w.pe, w.number, body.found);
    case WaitKind::kTeam:
      return fmt::format(
          "PE {} to make collective call {} of team {:#x} on this channel; it is at call {}", w.pe,
          w.number, w.team - 1, body.found >> 32);
    case WaitKind::kGrid:
      return "the other blocks of its grid in a collective call";
    case WaitKind::kMembers:
      return "what other members of the team send in a collective call";
    case WaitKind::kSwap:
      return "an atomic that is made of compare and swap, and finds the word changed each time";
    case WaitKind::kFault:
      return fmt::format("the way to PE {}, which a plan of faults (PEAL_P2P_FAULTS) stalls", w.pe);
    case WaitKind::kQuiet:
      return of_queue(fmt::format("(quiet, fence, barrier_all) WQE {} of", w.number).c_str());
    case WaitKind::kCompletion:
      return of_queue(fmt::format("the completion of WQE {} of", w.number).c_str());
    case WaitKind::kRoom:
      return of_queue("room in");
    case WaitKind::kLanding:
      return of_queue("a landing cell of");
    case WaitKind::kLink:
      return of_queue("the connection of");
    case WaitKind::kOther:
    case WaitKind::kCount:
      break;
  }
  return "something inside peal";
}

WaitNote note_of(const WaitRecord& record, int queue, const PlaceOf& place_of) {
  const WaitRecord::Body& body = record.body;
  WaitNote note{.status = Status::kOk,
                .kind = body.wait.kind,
                .from = body.wait.pe,
                .ended_ns = body.ended_ns,
                .text = {}};
  const std::string object = what(body, queue, place_of);
  if (WaitRecord::phase(record.state) == WaitPhase::kWaiting) {
    note.text = fmt::format("{}, waits for {}", describe(body.lane, body.place), object);
    return note;
  }
  note.status = static_cast<Status>(record.status);
  note.text = fmt::format("{}, waited for {}: {}", describe(body.lane, body.place), object,
                          to_string(note.status));
  if (body.begun_ns != 0 && note.status == Status::kTimeout) {
    note.text +=
        fmt::format(" after {:.3g} s", static_cast<double>(body.ended_ns - body.begun_ns) / 1e9);
  }
  return note;
}

// What a PE that has left in order sent before it did may still be on its way.
constexpr unsigned kLooks = 5;

}  // namespace

bool closes_queue(WaitKind kind) { return kind >= WaitKind::kRoom; }

std::vector<WaitNote> waits_of(const ContextOwner& context, const PlaceOf& place_of) {
  std::vector<WaitNote> notes;
  const DeviceTables::Waits waits = context.waits();
  for (const WaitRecord& record : waits.records) {
    notes.push_back(note_of(record, context.queue_number(record.body.wait.queue), place_of));
  }
  if (waits.more) {
    notes.push_back({.text = fmt::format("other waits of context {} found none of its {} records "
                                         "free",
                                         context.slot(), kWaitRecords)});
  }
  return notes;
}

bool VainWaits::look(const std::function<std::vector<WaitNote>()>& all) {
  const std::vector<int> left = group_.left_in_order();
  std::vector<WaitNote> waits = left.empty() ? std::vector<WaitNote>() : all();
  std::erase_if(waits, [](const WaitNote& wait) { return wait.status != Status::kOk; });
  looks_ = waits.empty() ? 0 : looks_ + 1;
  if (looks_ < kLooks) return false;
  const bool alone = group_.not_left().empty() && std::ranges::any_of(left, [&](int pe) {
                       return group_.departure(pe)->how == Departure::How::kExited;
                     });
  for (const WaitNote& wait : waits) {
    const bool of_one = wait.kind == WaitKind::kBarrier || wait.kind == WaitKind::kTeam;
    const bool of_any = wait.kind == WaitKind::kWord || wait.kind == WaitKind::kSignal;
    const bool from_left = std::ranges::find(left, wait.from) != left.end();
    if (of_one && from_left) return stop(wait.from, wait.text);
    if (of_any && alone) return stop(left.front(), wait.text);
  }
  for (const int pe : left) {
    if (!warned_of_.insert(pe).second) continue;
    log_.warn("runtime", "PE {} {}, while a kernel of this PE waits: {}", pe,
              describe(*group_.departure(pe)), waits.front().text);
  }
  return false;
}

bool VainWaits::stop(int pe, const std::string& wait) {
  Failure why{.status = Status::kPeerLost,
              .pe = pe,
              .time_ns = monotonic_ns(),
              .text = fmt::format("PE {} {}, and nobody is left to end a wait: {}", pe,
                                  describe(*group_.departure(pe)), wait)};
  log_.error("runtime", "{}; all waits end with \"{}\"", why.text, to_string(why.status));
  looks_ = 0;
  const std::lock_guard lock(mutex_);
  failure_ = std::move(why);
  return true;
}

std::optional<Failure> VainWaits::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

void VainWaits::forget() {
  const std::lock_guard lock(mutex_);
  failure_.reset();
}

}  // namespace peal
