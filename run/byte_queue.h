// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace peal::run {

/// Bytes that come at one end and go at the other. To take some from the front of many costs no
/// more than those: what waits is moved only when less of it is left than has gone.
class ByteQueue {
 public:
  void append(std::string_view bytes) { bytes_.append(bytes); }
  std::string_view view() const { return std::string_view(bytes_).substr(gone_); }
  std::size_t size() const { return bytes_.size() - gone_; }

  /// Takes away the first `count`, which are there.
  void drop(std::size_t count) {
    gone_ += count;
    if (gone_ <= bytes_.size() / 2) return;
    bytes_.erase(0, gone_);
    gone_ = 0;
  }
  void clear() { drop(size()); }

 private:
  std::string bytes_;
  std::size_t gone_ = 0;
};

}  // namespace peal::run
