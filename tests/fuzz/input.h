// SPDX-License-Identifier: Apache-2.0
//
// The bytes of one input, taken from the front. Past the end everything is zero: an input that is
// cut short means something too, and done() ends the loops of a target.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>

namespace peal::fuzz {

class Input {
 public:
  Input(const uint8_t* data, size_t bytes) : left_(data, bytes) {}

  bool done() const { return left_.empty(); }
  size_t left() const { return left_.size(); }

  /// The next `bytes` bytes, or what is left.
  std::span<const uint8_t> take(size_t bytes) {
    const auto front = left_.first(bytes < left_.size() ? bytes : left_.size());
    left_ = left_.subspan(front.size());
    return front;
  }
  template <class T>
  T number() {
    T value = 0;
    const auto bytes = take(sizeof(T));
    if (!bytes.empty()) std::memcpy(&value, bytes.data(), bytes.size());
    return value;
  }
  uint8_t byte() { return number<uint8_t>(); }
  bool flag() { return (byte() & 1) != 0; }
  /// A number below `limit`, which is not 0.
  uint32_t below(uint32_t limit) {
    return limit <= 256 ? byte() % limit : number<uint16_t>() % limit;
  }
  /// One of a list.
  template <class T, size_t kChoices>
  T choice(const T (&choices)[kChoices]) {
    return choices[below(kChoices)];
  }

 private:
  std::span<const uint8_t> left_;
};

/// What a target knows must hold. Not assert(): targets are built with and without NDEBUG.
inline void require(bool holds) {
  if (!holds) std::abort();
}

}  // namespace peal::fuzz
