// SPDX-License-Identifier: Apache-2.0
//
// The flight recorder of a PE (PEAL_RECORD): for each slot of a context a ring of its kernels' last
// calls and counters (device/shared/call_record.h), in memory that kernels write and the host
// copies from while they run. What a dropped context did can be read until another takes its slot.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <vector>

#include "device/context.h"
#include "host/contexts/device_tables.h"
#include "host/memory/backing.h"

namespace peal {

/// What a ring said at one time.
struct Recorded {
  uint32_t slot;
  std::vector<CallRecord> calls;  // in the order in which they began
  uint64_t overwritten = 0;       // calls that began and are not among them
  bool ran = false;               // a kernel that was compiled with the recorder has run
  uint64_t looks = 0;
  std::array<CallCount, static_cast<size_t>(Call::kCount)> count{};
  PostTimes posts{};
};

/// Thread-safe.
class Recorder {
 public:
  using MakeMemory = std::function<Backing(size_t bytes)>;

  /// `entries` of each ring, a power of two; 0: there are none.
  Recorder(uint32_t entries, MakeMemory make_memory);

  bool on() const { return entries_ != 0; }
  /// What a new context's kernels write to; null while the recorder is off. Throws kOutOfMemory.
  RecordTable* begin(uint32_t slot);
  /// What was recorded for a slot; nullopt where it has had no context.
  std::optional<Recorded> read(uint32_t slot) const;
  /// The same of all slots that had a context.
  std::vector<Recorded> read_all() const;
  size_t bytes() const;

 private:
  uint32_t entries_;
  MakeMemory make_memory_;
  mutable std::mutex mutex_;  // guards what follows
  std::array<std::optional<Backing>, kMaxContexts> rings_;
};

}  // namespace peal
