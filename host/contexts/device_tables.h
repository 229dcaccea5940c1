// SPDX-License-Identifier: Apache-2.0
//
// What kernels read beside the heap, the queues and the windows (host/windows), in memory that is
// theirs: the state that the kernels of one context share. The host reaches all of it with copies,
// also while kernels spin.
//
//   [ ContextState x kMaxContexts | CallReport x kMaxContexts | WaitTable x kMaxContexts
//     | LinkFaults | LinkCount x n_pes | survivors | CheckTable x kMaxContexts, in checked mode ]
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "device/context.h"
#include "device/shared/kernel_arguments.h"
#include "host/memory/backing.h"
#include "host/windows/published_windows.h"

namespace peal {

inline constexpr uint32_t kMaxContexts = 64;

/// The tables of one runtime. Not thread-safe, but for usage(), report(), waits() and killed().
class DeviceTables {
 public:
  struct Extent {
    int n_pes;
    bool checked = false;     // PEAL_CHECK
    bool own_memory = false;  // ContextState::own_memory
  };
  static size_t bytes(const Extent& extent);
  /// `memory` has bytes(extent) and is zero. `windows`, which outlives this, has the heap by the
  /// time that fields() is asked.
  DeviceTables(Backing memory, const Extent& extent, PublishedWindows& windows);

  size_t bytes() const { return memory_.bytes(); }

  /// What checked mode goes by; `hooks` is null where kernels run on a GPU. For every context that
  /// is made from now on.
  struct Checks {
    const uint8_t* extents;  // SymmetricHeap::extents()
    const CallHooks* hooks;
  };
  void check(const Checks& checks) { checks_ = checks; }
  /// True if a kernel that looks at calls has run on the slot's context.
  bool checked(uint32_t slot) const;

  bool own_memory() const { return own_memory_; }

  /// The state by the address that kernels use; the host does not read it there.
  ContextState* state(uint32_t slot) const;

  /// What every context says of the windows: the table, and a copy of the heap. Everything else is
  /// zero.
  ContextFields fields() const;

  /// Sets the faults that contexts made from now on meet at mapped peers. The plan counts from this
  /// call.
  void set_faults(const LinkFaults& plan);
  bool has_faults() const { return has_faults_; }
  /// A kernel has met a fault that kills this process.
  bool killed() const;

  /// Takes the PEs of `masked` out of all tables. Barriers are among the PEs of `live` from now on.
  void leave_out(std::span<const int> masked, std::span<const int> live);
  void keep_survivors(uint32_t slot, uint32_t rank, uint32_t count) const;

  /// To be called before a new context uses the slot. Its kernels set `alarm` after an error.
  void reset_state(uint32_t slot, uint32_t* alarm);
  /// Where its kernels write their calls down; null: nowhere.
  void keep_records(uint32_t slot, RecordTable* records) const;
  /// What the slot's context says, for code that has the state only.
  void keep_fields(uint32_t slot, const ContextFields& fields) const;
  /// The first usage error of the slot's kernels; `status` is 0 while there is none.
  UsageError usage(uint32_t slot) const;
  /// The first call from the host that failed on the slot's context; `status` is 0 while there is
  /// none. report_place() is for kernels.
  kernels::CallReport report(uint32_t slot) const;
  kernels::CallReport* report_place(uint32_t slot) const;
  /// What the slot's kernels wait for, and have waited for in vain. wait_place() is for kernels.
  struct Waits {
    std::vector<WaitRecord> records;
    bool more;  // some found no record free
  };
  Waits waits(uint32_t slot) const;
  WaitTable* wait_place(uint32_t slot) const;
  /// All of these are forgotten.
  void forget_usage(uint32_t slot);
  /// Lets quiet of the slot's kernels look at queues without a mark too: the host closed some. Any
  /// thread.
  void look_everywhere(uint32_t slot, bool everywhere) const;
  /// Tells the slot's kernels, also those that wait for nothing, why their waits have been ended;
  /// kOk: they have not. Any thread.
  void end(uint32_t slot, Status why) const;
  /// Barriers that the slot's kernels have entered.
  uint64_t sync_epoch(uint32_t slot) const;
  void set_sync_epoch(uint32_t slot, uint64_t epoch);

 private:
  void forget_waits(uint32_t slot);
  void reset_checks(uint32_t slot);
  CheckTable* check_place(uint32_t slot) const;
  LinkFaults* faults() const;
  int32_t* survivors() const;

  Backing memory_;
  PublishedWindows& windows_;
  size_t n_pes_;
  bool has_faults_ = false;
  size_t checks_at_;  // CheckTables, if there are any
  bool own_memory_;
  std::optional<Checks> checks_;
};

}  // namespace peal
