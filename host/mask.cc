// SPDX-License-Identifier: Apache-2.0
//
// Going on without PEs that are dead. The group shrinks first; then the tables and contexts of each
// PE forget them, and recovery, among those that are left, does the rest.
#include <algorithm>
#include <chrono>
#include <vector>

#include "host/base/error.h"
#include "host/runtime_state.h"

namespace peal {
namespace {

// A kernel may hear of a death from the NIC before the operating system tells of it.
constexpr std::chrono::milliseconds kUntilNoticed{2000};

}  // namespace

void Runtime::State::leave_masked_out(ContextOwner& context) const {
  const std::vector<int> masked = bootstrap->masked_pes();
  if (masked.empty()) return;
  const std::vector<int> left = bootstrap->unmasked_pes();
  const auto rank = std::ranges::find(left, bootstrap->rank()) - left.begin();
  context.leave_out(masked, static_cast<uint32_t>(rank), static_cast<uint32_t>(left.size()));
}

void Runtime::State::mask(const std::vector<int>& pes) {
  std::vector<int> watched;
  for (const int pe : pes) {
    if (pe < 0 || pe >= bootstrap->size()) {
      fail(ErrorCode::kInvalidArgument, "mask: there is no PE {}; PEs are 0 to {}", pe,
           bootstrap->size() - 1);
    }
    if (pe == bootstrap->rank()) fail(ErrorCode::kInvalidArgument, "mask: PE {} is this one", pe);
    const Place& there = bootstrap->places()[static_cast<size_t>(pe)];
    const bool here =
        same_process(there, bootstrap->places()[static_cast<size_t>(bootstrap->rank())]);
    if (here || watcher->watches(pe)) watched.push_back(pe);
  }
  if (const int alive = bootstrap->await_lost(watched, kUntilNoticed); alive >= 0) {
    fail(
        ErrorCode::kInvalidArgument,
        "mask: PE {} (process {}) has not ended; it would still use this PE's memory: end it first",
        alive, bootstrap->places()[static_cast<size_t>(alive)].pid);
  }
  for (const int pe : pes) bootstrap->mask(pe);
  lost_ns = 0;
  if (bootstrap->masked_pes().empty()) return;
  tables.leave_out(bootstrap->masked_pes(), bootstrap->unmasked_pes());
  {
    const std::lock_guard lock(contexts_mutex);
    for (const auto& weak : contexts) {
      if (const auto context = weak.lock()) leave_masked_out(*context);
    }
  }
  recover();
}

std::vector<int> Runtime::lost_pes() const { return state_->bootstrap->lost_pes(); }

void Runtime::mask(const std::vector<int>& pes) { state_->mask(pes); }

}  // namespace peal
