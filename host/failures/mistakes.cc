// SPDX-License-Identifier: Apache-2.0
#include "host/failures/mistakes.h"

#include <thread>
#include <utility>

#include "base/clock.h"

namespace peal {
namespace {

Mistakes& of(void* self) { return *static_cast<Mistakes*>(self); }

}  // namespace

Mistakes::Mistakes(PlaceOf place_of, const Log& log, std::function<void()> alarm)
    : place_of_(std::move(place_of)),
      log_(log),
      alarm_(std::move(alarm)),
      hooks_{.self = this,
             .begin =
                 [](void* self, ContextState* state, const CallNote& note) {
                   if (auto* const order = of(self).order_) order->begin(state, note);
                 },
             .end =
                 [](void* self, ContextState* state, const CallNote& note, Status status) {
                   if (auto* const order = of(self).order_) order->end(state, note, status);
                 },
             .found = [](void* self, const ContextState* state,
                         const UsageError& error) { of(self).found(error, state->fields.pe); }} {}

// Both on a thread of their own: a lane's stack may be too small for reading debug information.
void Mistakes::found(const UsageError& error, int pe) {
  {
    const std::lock_guard lock(mutex_);
    if (!told_.emplace(error.mistake, error.call, error.side, error.place).second) return;
  }
  std::thread([&] {
    log_.error("check", "{}: {}", describe(error.lane, error.place),
               describe_mistake(error, pe, place_of_));
  }).join();
}

void Mistakes::tell(const std::string& sentence) {
  std::thread([&] {
    // It begins with this PE, as whoever prints it does.
    const size_t behind = sentence.starts_with("PE ") ? sentence.find(": ") + 2 : 0;
    const std::string text = sentence.substr(behind);
    log_.error("check", "{}", text);
    const std::lock_guard lock(mutex_);
    Failure failure;
    failure.status = Status::kMistake;
    failure.time_ns = monotonic_ns();
    failure.text = text;
    failures_.push_back(std::move(failure));
  }).join();
  alarm_();
}

std::vector<Failure> Mistakes::failures() const {
  const std::lock_guard lock(mutex_);
  return failures_;
}

void Mistakes::forget() {
  const std::lock_guard lock(mutex_);
  failures_.clear();
  told_.clear();
}

}  // namespace peal
