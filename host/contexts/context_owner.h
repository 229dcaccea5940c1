// SPDX-License-Identifier: Apache-2.0
//
// What stands behind one device context: its links, if it has any, and its slot in the tables; and
// the table of those there are.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "device/context.h"
#include "host/contexts/debug.h"
#include "host/contexts/device_tables.h"
#include "host/contexts/link_machine.h"
#include "host/contexts/usage_text.h"
#include "host/failures/failure.h"
#include "host/memory/backing.h"

namespace peal {

/// What the host and the kernels of one context tell each other, in memory that both reach at once.
struct ContextWords {
  uint32_t stop;   // a Status; ends every wait
  uint32_t alarm;  // 1: an error record has been written

  void clear() {
    store_relaxed<Reach::kSystem>(&stop, 0u);
    store_relaxed<Reach::kSystem>(&alarm, 0u);
  }
};

/// Owns the queues of one context. Thread-safe but for leave_out() and recovery.
class ContextOwner {
 public:
  /// Which context this is: its slot in the tables, and its number among all that were ever made.
  struct Name {
    uint32_t slot;
    uint64_t serial;
  };

  /// `links` may be null: then every peer is reached directly. `fields` is complete but for what
  /// the queues and the slot say. `tables` and `words`, the slot's, outlive the context.
  ContextOwner(std::unique_ptr<LinkMachine> links, DeviceTables& tables, ContextWords& words,
               Name name, const ContextFields& fields);

  /// What kernels are given.
  const ContextFields& fields() const { return fields_; }
  uint32_t slot() const { return name_.slot; }
  uint64_t serial() const { return name_.serial; }
  /// Null where there is no NIC.
  LinkMachine* links() const { return links_.get(); }
  /// The memory of the queues and of the owner itself.
  size_t bytes() const;

  /// What kernels of this context ran into, usage and queues, the earliest first.
  std::vector<Failure> failures(const PlaceOf& place_of) const;
  /// Copies from the kernels' memory so much that the driver does it: throws where the GPU has
  /// failed, of which a load of a mapped word does not tell.
  void touch() const { static_cast<void>(tables_.waits(name_.slot)); }

  /// True if kernels that look at their calls have run on it (PEAL_CHECK).
  bool checked() const { return tables_.checked(name_.slot); }
  /// What its kernels wait for, and have waited for in vain.
  DeviceTables::Waits waits() const { return tables_.waits(name_.slot); }
  /// Which of the queues to its peer a SendQueue of this context is; -1 for none.
  int queue_number(const void* queue) const;

  /// Ends every wait of the context, with why.status; the first reason is kept.
  void stop(const Failure& why);
  /// Why its waits were ended, if they were by stop().
  std::optional<Failure> stopped() const;
  /// Shows the stop word to kernels that do not wait. To be called by whoever writes the stop word.
  void show_end() const;
  /// True when its waits have been ended, by stop() or because a PE was lost.
  bool ended() const { return load_relaxed<Reach::kSystem>(&words_.stop) != 0; }

  /// The link to `pe` could not be made.
  void fail_link(uint32_t pe, const Failure& why);

  /// Takes on what the tables show since some PEs are masked: operations on those are refused,
  /// barriers are among `count` PEs of which this is the `rank`-th. Changes fields().
  void leave_out(std::span<const int> masked, uint32_t rank, uint32_t count);

  /// The end of a recovery: forgets what was wrong. For a time without kernels.
  void start_again(uint64_t sync_epoch);
  uint64_t sync_epoch() const { return tables_.sync_epoch(name_.slot); }

  /// One line for each queue: where it stands. Nothing where there are none.
  std::string describe_queues() const;

 private:
  std::unique_ptr<LinkMachine> links_;
  DeviceTables& tables_;
  ContextWords& words_;
  Name name_;
  ContextFields fields_;
  mutable std::mutex mutex_;
  std::optional<Failure> stopped_;  // guarded by mutex_
  const DebugItem listed_{peal_debug_contexts, &fields_};
};

/// The contexts of a PE by slot, alike on all PEs, and the words by which host and kernels talk
/// while kernels run, in memory that both reach at once:
///
///   [ ContextWords x kMaxContexts | requests x PEs x kMaxContexts ]
///
/// The table does not own a context: whoever was given it does. Thread-safe.
class ContextTable {
 public:
  static size_t bytes(int n_pes);
  /// `memory` has bytes(n_pes) and is zero. `generation` is where recoveries begin to count.
  ContextTable(Backing memory, int n_pes, uint32_t generation = 0);

  ContextWords& words(uint32_t slot) const;
  /// A word for each PE: not 0 when kernels of the slot's context want a link to that PE.
  uint32_t* requests(uint32_t slot) const;

  /// Enters the context into its slot, which is free.
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

  /// Counts recoveries; alike on all PEs.
  uint32_t generation() const { return generation_; }
  /// Waits for the visits of for_each() that have begun.
  void next_generation() {
    const std::lock_guard lock(mutex_);
    ++generation_;
  }

 private:
  Backing memory_;
  size_t n_pes_;
  std::atomic<uint32_t> generation_;
  mutable std::mutex mutex_;  // guards what follows
  std::array<std::weak_ptr<ContextOwner>, kMaxContexts> contexts_;
  std::vector<Failure> reported_;
};

}  // namespace peal
