// SPDX-License-Identifier: Apache-2.0
//
// What was registered to be found again when the same memory is registered again, until its owner
// frees it. Of one PE: what the PEs make of it together is host/windows/windows.cc's.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "host/memory/gpu.h"

namespace peal {

/// Whether memory is still what it was when its address was told: an allocator frees it, and other
/// memory may have its addresses later. The driver's numbers of the allocations and mappings that a
/// range lies in, in their order (CU_POINTER_ATTRIBUTE_BUFFER_ID, which no two of a process ever
/// share). Memory that was freed, or mapped anew, has others. Seen on an H100, driver 580: so for
/// memory of cudaMalloc, cudaMallocAsync, cudaMallocHost, and for each mapping of cuMemCreate's.
using MemoryIdentity = std::vector<uint64_t>;

/// Empty where some of the range is memory that CUDA does not know. Under a microsecond for each
/// allocation.
MemoryIdentity identify(const Gpu& gpu, const std::byte* address, size_t bytes);

class RegistrationCache {
 public:
  using Identify = std::function<MemoryIdentity(const std::byte* address, size_t bytes)>;

  /// `identify` answers nothing for memory whose end nothing tells of.
  explicit RegistrationCache(Identify identify) : identify_(std::move(identify)) {}

  struct Memory {
    const std::byte* address;
    size_t bytes;
    MemoryIdentity identity;  // empty only where there are no bytes
  };
  /// Throws kUnsupported, naming `call`, for memory whose end nothing tells of.
  Memory describe(const char* call, const std::byte* address, size_t bytes) const;

  /// Entries are known by numbers that their owner chooses, not 0.
  using Numbers = std::array<uint64_t, 8>;

  /// The newest entries that are of exactly this memory, the newest in front; 0 behind them.
  Numbers find(const Memory& memory) const;

  void keep(uint64_t number, Memory memory);
  /// Does nothing where there is no such entry.
  void forget(uint64_t number);

  size_t count() const { return entries_.size(); }
  /// In rising order.
  std::vector<uint64_t> numbers() const;
  /// The numbers of entries whose memory is gone, or is other memory now.
  std::vector<uint64_t> ended() const;

 private:
  Identify identify_;
  std::map<uint64_t, Memory> entries_;
  std::multimap<const std::byte*, uint64_t> by_address_;  // the newest last
};

}  // namespace peal
