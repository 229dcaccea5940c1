// SPDX-License-Identifier: Apache-2.0
//
// The one source of chance of a simulation: the same seed, the same numbers, on every machine.
#pragma once

#include <cstdint>

namespace peal::simt {

/// splitmix64.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  /// 0 .. bound - 1; bound is small against 2^32.
  uint32_t below(uint32_t bound) { return static_cast<uint32_t>(((next() >> 32) * bound) >> 32); }
  /// True once in `times` calls.
  bool one_in(uint32_t times) { return below(times) == 0; }

 private:
  uint64_t state_;
};

}  // namespace peal::simt
