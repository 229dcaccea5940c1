// SPDX-License-Identifier: Apache-2.0
//
// GPU memory that was made and mapped apart (cuMemCreate, cuMemMap): what a range of addresses has
// behind it, and the same memory mapped once more, in this process or in another.
//
//   addresses   | 20 MiB | 20 MiB | 20 MiB |      one window, e.g. of PyTorch's expandable segments
//   pieces      |   0    |   1    |   2    |      each a descriptor, or a fabric handle
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "base/fd.h"
#include "host/base/cuda_driver.h"
#include "host/memory/gpu.h"

namespace peal {

/// Addresses of this process that end with it.
using GpuMapping = std::unique_ptr<std::byte, std::function<void(std::byte*)>>;

/// References to memory of cuMemCreate, in the order in which it is mapped; owned. `gpu` outlives
/// it.
class Pieces {
 public:
  explicit Pieces(const Gpu& gpu) : gpu_(gpu) {}
  ~Pieces();
  Pieces(const Pieces&) = delete;
  Pieces& operator=(const Pieces&) = delete;
  Pieces(Pieces&& other) noexcept;
  Pieces& operator=(Pieces&&) = delete;

  /// The pieces that [address, address + bytes) of this process lies in; none if some of it is
  /// other memory. `offset`: where the range begins in the first one.
  static Pieces behind(const Gpu& gpu, const std::byte* address, size_t bytes, size_t* offset);

  /// New memory of `gpu`, a multiple of granularity(). `handle_types`: how it can be shared, bits
  /// of cuda::kPosixDescriptor and kFabric. What the driver answered.
  cuda::Result create(size_t bytes, int handle_types);
  /// What another process has exported. Throws kSystem.
  void open(const Fd& descriptor, size_t bytes);
  void open(const cuda::FabricHandle& handle, size_t bytes);

  size_t count() const { return pieces_.size(); }
  size_t bytes_of(size_t piece) const { return pieces_[piece].bytes; }

  /// A descriptor of the piece, by which other processes of this host open it. Throws kSystem.
  Fd descriptor(size_t piece) const;
  /// A handle of the piece for other hosts of the same NVLink domain. Throws kSystem.
  cuda::FabricHandle fabric_handle(size_t piece) const;

  /// Maps them one behind the other, at a multiple of `alignment` (a power of two), for kernels of
  /// `gpu` to load and store. The memory lives as long as the mapping. Throws kSystem.
  GpuMapping map(std::shared_ptr<Gpu> gpu, size_t alignment) const;

 private:
  struct Piece {
    cuda::MemoryHandle memory;
    size_t bytes;
  };
  void open(void* exported, int type, const char* what, size_t bytes);

  const Gpu& gpu_;
  std::vector<Piece> pieces_;
};

/// True if this GPU's memory can be made and mapped apart, and be shared by descriptor.
bool has_pieces(const Gpu& gpu);

/// What sizes of pieces are multiples of.
size_t granularity(const Gpu& gpu);

}  // namespace peal
