// SPDX-License-Identifier: Apache-2.0
#include "host/check/sites.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include "device/shared/call_names.h"
#include "simt/lanes/lane.h"
#include "simt/lanes/place.h"
#include "simt/lanes/symbol.h"

namespace peal::checking {
namespace {

constexpr uint32_t kNoLane = ~uint32_t{0};

template <size_t N>
void copy_text(char (&to)[N], const std::string& from) {
  const size_t length = std::min(from.size(), N - 1);
  std::memcpy(to, from.data(), length);
  to[length] = 0;
}

uint32_t block_rank() {
  return simt::blockIdx.x +
         simt::gridDim.x * (simt::blockIdx.y + simt::gridDim.y * simt::blockIdx.z);
}

}  // namespace

AccessKind operation_of(const CallNote& note) {
  const uint32_t starts = note.starts != 0 ? static_cast<uint32_t>(AccessKind::kStarts) : 0;
  return static_cast<AccessKind>(static_cast<uint32_t>(note.call) + starts);
}

std::string name_of(AccessKind operation) {
  if (operation == AccessKind::kPlainLoad) return "a plain load";
  if (operation == AccessKind::kPlainStore) return "a plain store";
  if (operation == AccessKind::kFree) return "free()";
  constexpr auto kStarts = static_cast<uint32_t>(AccessKind::kStarts);
  static_assert(static_cast<uint32_t>(Call::kCount) <= kStarts);
  const auto number = static_cast<uint32_t>(operation);
  const std::string name = to_string(static_cast<Call>(number % kStarts));
  return number < kStarts ? name : name + "_nbi";
}

Sites::Sites(const Segment& segment)
    : segment_(segment), number_([] {
        static std::atomic<uint64_t> made{0};
        return made.fetch_add(1) + 1;
      }()) {}

uint16_t Sites::here(AccessKind operation, uint64_t place) {
  if (place == 0) place = simt::place_here("");
  const auto kernel = reinterpret_cast<uint64_t>(simt::kernel());
  const Key key{place, kernel, static_cast<uint32_t>(operation), block_rank(), simt::thread_rank()};
  thread_local std::pair<uint64_t, Key> last_key;
  thread_local uint16_t last = 0;
  const std::pair<uint64_t, Key> asked(number_, key);
  if (last_key == asked) return last;
  const std::lock_guard lock(mutex_);
  last = number_of(key, true);
  last_key = asked;
  return last;
}

uint16_t Sites::number_of(const Key& key, bool has_lane) {
  const auto known = numbers_.find(key);
  if (known != numbers_.end()) return known->second;
  const auto& [place, kernel, operation, block, thread] = key;
  if (has_lane && segment_.short_of_sites()) {
    return number_of({place, kernel, operation, kNoLane, kNoLane}, false);
  }
  const uint16_t number = segment_.new_site();
  if (number != 0) {
    const Text& text = text_of(kernel, place);
    AccessSite& site = segment_.site(number);
    site.kind = operation;
    site.block = block;
    site.thread = thread;
    site.has_lane = has_lane ? 1 : 0;
    copy_text(site.kernel, text.first);
    copy_text(site.line, text.second);
    site.ready.store(1, std::memory_order_release);
  }
  numbers_.emplace(key, number);
  return number;
}

const Sites::Text& Sites::text_of(uint64_t kernel, uint64_t place) {
  const auto [at, is_new] = texts_.try_emplace({kernel, place});
  if (is_new) {
    Text& text = at->second;
    std::thread([&text, kernel = kernel, place = place] {
      if (kernel != 0) text.first = simt::function_at(kernel);
      text.second = simt::place_text(place);
    }).join();
  }
  return at->second;
}

std::string Sites::text(uint16_t number) const {
  const AccessSite& site = segment_.site(number);
  if (number == 0 || site.ready.load(std::memory_order_acquire) == 0) return "an access";
  std::string text = site.line;
  if (site.kernel[0] != 0) {
    text = site.line[0] != 0 ? fmt::format("kernel {} ({})", site.kernel, site.line)
                             : fmt::format("kernel {}", site.kernel);
  }
  if (!text.empty()) text += ", ";
  if (site.has_lane != 0) text += fmt::format("block {}, thread {}, ", site.block, site.thread);
  return text + name_of(static_cast<AccessKind>(site.kind));
}

AccessKind Sites::operation(uint16_t number) const {
  return static_cast<AccessKind>(segment_.site(number).kind);
}

std::string Sites::line(uint16_t number) const {
  const AccessSite& site = segment_.site(number);
  if (number == 0 || site.ready.load(std::memory_order_acquire) == 0) return "";
  return fmt::format("{}|{}|{}", site.kind, site.kernel, site.line);
}

}  // namespace peal::checking
