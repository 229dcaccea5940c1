// SPDX-License-Identifier: Apache-2.0
//
// What a PE says of itself while its kernels run: the first failure, and where its queues stand.
#include "host/failure.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "host/base/error.h"
#include "host/runtime_state.h"

namespace peal {

bool Runtime::State::well() const {
  for (uint32_t slot = 0; slot < kMaxContexts; ++slot) {
    if (load_acquire<Reach::kSystem>(&words[slot].stop) != 0) return false;
    if (load_acquire<Reach::kSystem>(&words[slot].alarm) != 0) return false;
  }
  return true;
}

void Runtime::State::stop_all(Status status) {
  for (uint32_t slot = 0; slot < kMaxContexts; ++slot) {
    compare_exchange<Reach::kSystem>(&words[slot].stop, 0u, static_cast<uint32_t>(status));
  }
}

Failure Runtime::State::failure() const {
  const int lost = lost_pe;
  std::vector<Failure> found;
  Status stopped = Status::kOk;
  {
    const std::lock_guard lock(contexts_mutex);
    for (uint32_t slot = 0; slot < kMaxContexts; ++slot) {
      const auto context = contexts[slot].lock();
      if (context == nullptr) continue;
      for (Failure& f : context->failures()) {
        // What follows from the end of a PE is told as that, whether NIC or operating system saw
        // it first; what follows from a stop, as the stop.
        const bool follows = f.status == Status::kPeerLost || f.status == Status::kAborted ||
                             (lost >= 0 && f.pe == lost);
        if (!follows) found.push_back(std::move(f));
      }
      if (stopped == Status::kOk) {
        stopped = static_cast<Status>(load_acquire<Reach::kSystem>(&words[slot].stop));
      }
    }
  }
  if (!found.empty()) return *std::ranges::min_element(found, {}, &Failure::time_ns);
  Failure failure;
  failure.status = lost >= 0 ? Status::kPeerLost : stopped;
  if (failure.status == Status::kPeerLost) {
    failure.pe = lost;
    failure.text = fmt::format("PE {} ended before the job did", lost);
  } else if (failure.status != Status::kOk) {
    failure.text = "waits were ended by stop_waits()";
  }
  return failure;
}

Failure Runtime::failure() const { return state_->failure(); }

Status Runtime::status() const { return state_->well() ? Status::kOk : state_->failure().status; }

std::string Runtime::dump() const {
  const Failure f = failure();
  std::string text =
      fmt::format("PE {} of {}: transport {}, NIC {}, {}\n", my_pe(), n_pes(), transport(), nic(),
                  f.status == Status::kOk ? "no failure" : "failure: " + f.text);
  std::string queues;
  {
    const std::lock_guard lock(state_->contexts_mutex);
    for (const auto& weak : state_->contexts) {
      if (const auto context = weak.lock()) queues += context->describe_queues();
    }
  }
  if (queues.empty()) return text;
  return text +
         fmt::format("{:>7} {:>5} {:>5} {:>8} {:>6} {:>10} {:>10} {:>10} {:>10}  {:<14} {}\n",
                     "context", "queue", "peer", "QP", "depth", "reserved", "published", "rung",
                     "completed", "last CQE of", "status") +
         queues;
}

void Runtime::check() const {
  const Failure f = failure();
  if (f.status == Status::kOk) return;
  fail(f.status == Status::kPeerLost ? ErrorCode::kPeerLost : ErrorCode::kSystem, "PE {}: {}",
       my_pe(), f.text);
}

void Runtime::stop_waits() { state_->stop_all(Status::kAborted); }

}  // namespace peal
