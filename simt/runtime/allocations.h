// SPDX-License-Identifier: Apache-2.0
//
// What CUDA's calls allocated or were told of: so that a wrong pointer is an error and not a crash.
// All of it is host memory. Memory that nobody told of (the stack, malloc, a symmetric heap) is
// what CUDA calls unregistered.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>

#include "simt/runtime/types.h"

namespace peal::simt::cuda {

struct Piece {
  void* start;
  size_t bytes;
  cudaMemoryType type;
  unsigned device;
  bool owned;  // else of the program, which registered it
};

class Allocations {
 public:
  /// Fresh memory, aligned to 256, full of 0xa5. Throws std::bad_alloc where this machine has less
  /// than that to spare.
  void* allocate(size_t bytes, cudaMemoryType type);

  /// False where part of it is known already.
  bool add(void* start, size_t bytes);

  /// Forgets what starts here and is of such a kind; its caller frees what is owned.
  std::optional<Piece> take(void* start, bool owned, bool host);

  /// What this address lies in.
  std::optional<Piece> find(const void* address) const;

  /// Frees all device memory of a device.
  void free_all(unsigned device);

 private:
  mutable std::mutex mutex_;
  std::map<uintptr_t, Piece> pieces_;  // by where they start
};

Allocations& allocations();

/// Memory of this machine: all of it, and what is to spare.
size_t total_bytes();
size_t spare_bytes();

}  // namespace peal::simt::cuda
