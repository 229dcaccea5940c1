// SPDX-License-Identifier: Apache-2.0
//
// The contexts of a PE by slot, alike on all PEs, and the words by which host and kernels talk
// while kernels run, in memory that both reach at once:
//
//   [ ContextWords x kMaxContexts | requests x PEs x kMaxContexts ]
//
// The table does not own a context: whoever was given it does.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "host/contexts/context_owner.h"
#include "host/memory/backing.h"

namespace peal {

/// Thread-safe.
class ContextTable {
 public:
  static size_t bytes(int n_pes);
  /// `memory` has bytes(n_pes) and is zero.
  ContextTable(Backing memory, int n_pes);

  ContextWords& words(uint32_t slot) const;
  /// By PE: not 0 when kernels of the slot's context want a link to it.
  uint32_t* requests(uint32_t slot) const;

  /// Into its slot, which is free.
  void add(const std::shared_ptr<ContextOwner>& context);
  /// One bit a slot.
  uint64_t taken() const;
  /// Null where there is none.
  std::shared_ptr<ContextOwner> at(uint32_t slot) const;

  /// Calls `visit` with each context there is, with the lock held. A context that its user drops
  /// meanwhile is destroyed after its visit, still under the lock: the next caller finds it gone.
  template <class Visit>
  void for_each(Visit&& visit) const {
    const std::lock_guard lock(mutex_);
    for (const auto& weak : contexts_) {
      if (const auto context = weak.lock()) visit(*context);
    }
  }

  /// No stop word is set and no alarm was raised.
  bool well() const;
  /// Ends the waits of all contexts, for a reason that the group knows.
  void stop_all(Status why) const;

  /// A failure that no context tells of: of a file's transfer in a stream, or one that checked mode
  /// has found. Raises the alarm of the default context, which there always is.
  void report(Failure failure);
  std::vector<Failure> reported() const;
  void forget_reported();

  /// Recoveries so far; alike on all PEs.
  uint32_t generation() const { return generation_; }
  /// Behind the visits of for_each() that have begun.
  void next_generation() {
    const std::lock_guard lock(mutex_);
    ++generation_;
  }

 private:
  Backing memory_;
  size_t n_pes_;
  std::atomic<uint32_t> generation_{0};
  mutable std::mutex mutex_;  // guards what follows
  std::array<std::weak_ptr<ContextOwner>, kMaxContexts> contexts_;
  std::vector<Failure> reported_;
};

}  // namespace peal
