// SPDX-License-Identifier: Apache-2.0
#include "host/failures/vain_waits.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/clock.h"

namespace peal {
namespace {

// What a PE that has left in order sent before it did may still be on its way.
constexpr unsigned kLooks = 5;

}  // namespace

void VainWaits::look() {
  const std::vector<int> left = dependencies_.group.left_in_order();
  const std::vector<WaitNote> waits = left.empty() ? std::vector<WaitNote>() : lasting();
  looks_ = waits.empty() ? 0 : looks_ + 1;
  if (looks_ < kLooks) return;
  const bool alone =
      dependencies_.group.not_left().empty() && std::ranges::any_of(left, [&](int pe) {
        return dependencies_.group.departure(pe)->how == Departure::How::kExited;
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
    dependencies_.log.warn("runtime", "PE {} {}, while a kernel of this PE waits: {}", pe,
                           describe(*dependencies_.group.departure(pe)), waits.front().text);
  }
}

std::vector<WaitNote> VainWaits::lasting() const {
  std::vector<WaitNote> waits = dependencies_.waits();
  std::erase_if(waits, [](const WaitNote& wait) { return wait.status != Status::kOk; });
  return waits;
}

void VainWaits::stop(int pe, const std::string& wait) {
  Failure why;
  why.status = Status::kPeerLost;
  why.pe = pe;
  why.time_ns = monotonic_ns();
  why.text = fmt::format("PE {} {}, and nobody is left to end a wait: {}", pe,
                         describe(*dependencies_.group.departure(pe)), wait);
  dependencies_.log.error("runtime", "{}; all waits end with \"{}\"", why.text,
                          to_string(why.status));
  looks_ = 0;
  {
    const std::lock_guard lock(mutex_);
    failure_ = std::move(why);
  }
  dependencies_.stop();
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
