// SPDX-License-Identifier: Apache-2.0
//
// Storage of one block, found by key. Fresh storage holds 0xa5, so that nobody comes to rely on
// zero.
#pragma once

#include <cstddef>
#include <map>
#include <vector>

namespace peal::simt {

class SharedMemory {
 public:
  /// The storage of `key`; the first call makes it. Throws Error when `bytes` or `align` differ
  /// from the first call's, or when `align` is not a power of two.
  void* find(const void* key, size_t bytes, size_t align);

 private:
  struct Piece {
    std::vector<std::byte> memory;
    void* start;
    size_t bytes;
    size_t align;
  };
  std::map<const void*, Piece> pieces_;
};

}  // namespace peal::simt
