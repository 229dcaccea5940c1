// SPDX-License-Identifier: Apache-2.0
//
// What kernels read beside the heap and the queues, in memory that is theirs: the window table with
// its keys and addresses, and the state that the kernels of one context share. The host reaches all
// of it with copies, also while kernels spin.
//
//   [ WindowTable | ContextState x kMaxContexts | CallReport x kMaxContexts
//     | WaitTable x kMaxContexts | rkeys x kMaxWindows | word rkeys x kMaxWindows | direct x
//     kMaxWindows | survivors ]
//
// The keys of a window are [rails][n_pes].
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "device/context.h"
#include "host/memory/backing.h"
#include "kernels/arguments.h"

namespace peal {

inline constexpr uint32_t kMaxContexts = 64;

/// The tables of one runtime. Not thread-safe, but for usage(),
/// report() and waits().
class DeviceTables {
 public:
  /// Whose tables these are: PEs, and NICs that a PE reaches each of them by (1 where there is
  /// none).
  struct Extent {
    int n_pes;
    uint32_t rails;
  };
  /// Bytes of memory that the tables need.
  static size_t bytes(const Extent& extent);

  /// `memory` has bytes(extent) and is zero.
  DeviceTables(Backing memory, const Extent& extent);

  /// As kernels see them; not for the host to look into.
  const WindowTable* windows() const;
  ContextState* state(uint32_t slot) const;

  /// Throws kInvalidArgument when kMaxWindows are in use.
  void check_room() const;
  /// One window as it is reached at the PEs: one entry for each, or none at all; a key by each
  /// rail.
  struct Reached {
    std::span<const Be32> rkeys;       // for payload, [rails][n_pes]
    std::span<const Be32> word_rkeys;  // for words; as many as rkeys
    std::span<std::byte* const> direct;
  };
  /// Writes down one window more, in the place of one that was written and not published. What
  /// `window` says of `reached` does not matter.
  void fill(Window window, const Reached& reached);
  /// Shows kernels the window that fill() was told of last.
  void publish();
  uint32_t window_count() const { return count_; }
  /// The keys of window 0, the heap, [rails][n_pes].
  struct HeapKeys {
    std::vector<Be32> payload;
    std::vector<Be32> words;
  };
  HeapKeys heap_keys() const;
  /// What every context says of the windows: the table, and a copy of window 0, the heap, which
  /// fill() was told of first. Everything else is zero.
  const ContextFields& fields() const { return fields_; }

  /// Shows `masked` nowhere any more, and the PEs of `live` as those that barriers are among.
  void leave_out(std::span<const int> masked, std::span<const int> live);
  void keep_survivors(uint32_t slot, uint32_t rank, uint32_t count) const;

  /// Before a new context uses the slot; its kernels will set `alarm` when they err.
  void reset_state(uint32_t slot, uint32_t* alarm);
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
  /// Barriers that the slot's kernels have entered.
  uint64_t sync_epoch(uint32_t slot) const;
  void set_sync_epoch(uint32_t slot, uint64_t epoch);

 private:
  void forget_waits(uint32_t slot);
  void keep_heap(const Window& heap, std::span<std::byte* const> direct);
  Be32* rkeys(uint32_t window) const;
  Be32* word_rkeys(uint32_t window) const { return rkeys(kMaxWindows + window); }
  std::byte** direct(uint32_t window) const;
  int32_t* survivors() const;

  Backing memory_;
  size_t n_pes_;
  size_t rails_;
  uint32_t count_ = 0;
  ContextFields fields_{};
};

}  // namespace peal
