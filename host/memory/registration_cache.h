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

#include "host/memory/identity.h"

namespace peal {

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
  /// Those whose memory is not there any more, or is other memory.
  std::vector<uint64_t> ended() const;

 private:
  Identify identify_;
  std::map<uint64_t, Memory> entries_;
  std::multimap<const std::byte*, uint64_t> by_address_;  // the newest last
};

}  // namespace peal
