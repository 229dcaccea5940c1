// SPDX-License-Identifier: Apache-2.0
//
// What a PE says of itself while its kernels run: the first failure, and where its queues stand.
#include "host/failure.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "host/base/error.h"
#include "host/runtime_state.h"

namespace peal {
namespace {

// How often alarms are looked for while somebody wants to be called.
constexpr std::chrono::milliseconds kAlarmPeriod{1};

}  // namespace

bool Runtime::State::well() const {
  for (uint32_t slot = 0; slot < kMaxContexts; ++slot) {
    if (load_acquire<Reach::kSystem>(&words[slot].stop) != 0) return false;
    if (load_acquire<Reach::kSystem>(&words[slot].alarm) != 0) return false;
  }
  return true;
}

// In the order of events as far as one clock tells: what kernels ran into, then what was done to
// them. What follows from the end of a PE is told as that, whether NIC or operating system saw it
// first; what follows from a stop, as the stop.
Failure Runtime::State::failure() const {
  const std::vector<int> lost = bootstrap->lost_pes();
  std::vector<Failure> found;
  std::vector<Failure> stops;
  {
    const std::lock_guard lock(contexts_mutex);
    for (const auto& weak : contexts) {
      const auto context = weak.lock();
      if (context == nullptr) continue;
      for (Failure& f : context->failures()) {
        const bool follows = f.status == Status::kPeerLost || f.status == Status::kAborted ||
                             f.status == Status::kPeerMasked ||
                             std::ranges::find(lost, f.pe) != lost.end();
        if (!follows) found.push_back(std::move(f));
      }
      if (auto stop = context->stopped()) stops.push_back(std::move(*stop));
    }
  }
  if (!lost.empty() && !closing) {
    Failure loss;
    loss.status = Status::kPeerLost;
    loss.pe = lost.front();
    loss.time_ns = lost_ns;
    loss.text = fmt::format("PE {} ended before the job did", lost.front());
    stops.push_back(std::move(loss));
  }
  for (const auto* events : {&found, &stops}) {
    if (!events->empty()) return *std::ranges::min_element(*events, {}, &Failure::time_ns);
  }
  return {};
}

// Runs on the watcher's thread.
void Runtime::State::tell_callback() {
  if (well() && bootstrap->lost_pes().empty()) return;
  {
    const std::lock_guard lock(callback_mutex);
    if (!callback_due) return;
  }
  std::function<void(const Failure&)> call;
  try {
    const Failure first = failure();
    if (first.status == Status::kOk) return;
    {
      const std::lock_guard lock(callback_mutex);
      if (!callback_due) return;
      callback_due = false;
      call = callback;
    }
    watcher->tick_every(std::chrono::milliseconds(0));
    call(first);
  } catch (const std::exception& error) {
    log.error("runtime", "on_failure: the callback threw: {}", error.what());
  } catch (...) {
    log.error("runtime", "on_failure: the callback threw");
  }
}

void Runtime::State::arm_callback() {
  {
    const std::lock_guard lock(callback_mutex);
    callback_due = static_cast<bool>(callback);
  }
  // Also when it is not due: looks once, for an event that came before the callback did.
  watcher->tick_every(callback_due ? kAlarmPeriod : std::chrono::milliseconds(0));
}

void Runtime::on_failure(std::function<void(const Failure&)> callback) {
  {
    const std::lock_guard lock(state_->callback_mutex);
    state_->callback = std::move(callback);
  }
  state_->arm_callback();
}

Failure Runtime::failure() const { return state_->failure(); }

Status Runtime::status() const { return state_->well() ? Status::kOk : state_->failure().status; }

std::string Runtime::dump() const {
  const Failure f = failure();
  std::string text =
      fmt::format("PE {} of {}: transport {}, NIC {}, {}\n", my_pe(), n_pes(), transport(), nic(),
                  f.status == Status::kOk ? "no failure" : "failure: " + f.text);
  for (const Doorbell& doorbell : state_->doorbells) {
    if (!doorbell.assisted()) continue;
    text += fmt::format("{}; passed on {} doorbells\n", doorbell.describe(), doorbell.passed_on());
  }
  std::string queues;
  {
    const std::lock_guard lock(state_->contexts_mutex);
    for (const auto& weak : state_->contexts) {
      if (const auto context = weak.lock()) queues += context->describe_queues();
    }
  }
  if (queues.empty()) return text;
  return text +
         fmt::format(
             "{:>7} {:>5} {:>5} {:>8} {:>6} {:>10} {:>10} {:>10} {:>10}  {:<14} {:<10} {}\n",
             "context", "queue", "peer", "QP", "depth", "reserved", "published", "rung",
             "completed", "last CQE of", "NIC", "status") +
         queues;
}

void Runtime::check() const {
  const Failure f = failure();
  if (f.status == Status::kOk) return;
  fail(f.status == Status::kPeerLost ? ErrorCode::kPeerLost : ErrorCode::kSystem, "PE {}: {}",
       my_pe(), f.text);
}

}  // namespace peal
