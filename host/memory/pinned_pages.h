// SPDX-License-Identifier: Apache-2.0
//
// Host memory of this process, pinned for as long as any of its users holds it.
//
//   window A    |---------------|
//   window B             |----------------|      pinned: pages of A, then what B has beyond them
//
// Ranges that users name overlap and share pages; what the driver is told of never does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include "host/memory/backing_cuda.h"
#include "host/memory/gpu.h"

namespace peal {

class PinnedPages {
 public:
  explicit PinnedPages(std::shared_ptr<Gpu> gpu) : gpu_(std::move(gpu)) {}

  /// Kernels use all of [address, address + bytes) at its address until the answer is gone. What
  /// CUDA knows of its own accord stays its owner's. Throws kSystem that names the call. One thread
  /// at a time calls, and gives back.
  std::shared_ptr<void> hold(std::byte* address, size_t bytes);

 private:
  struct Part {
    uintptr_t end;
    std::weak_ptr<PinnedRange> range;
  };

  std::shared_ptr<Gpu> gpu_;
  std::map<uintptr_t, Part> parts_;  // by begin; whole pages, which do not overlap
};

}  // namespace peal
