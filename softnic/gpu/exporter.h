// SPDX-License-Identifier: Apache-2.0
//
// Memory of this process that the engine's process can map: which allocation an address lies in,
// and what another process needs to open it.
#pragma once

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <vector>

#include "softnic/engine/gpu_memory.h"
#include "softnic/gpu/message.h"
#include "softnic/gpu/message_socket.h"

namespace peal::softnic::gpu {

/// Why memory cannot be shared; the text names the call, the range and the remedy.
struct ExportError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Memory as it travels: an allocation, or a piece of a range that has several.
struct Exported {
  ProcessMemory extent;
  Fd descriptor;  // if its kind has one
};

class Exporter {
 public:
  virtual ~Exporter() = default;

  /// True for memory that only a GPU reaches.
  virtual bool owns(const void* address) const = 0;
  /// The allocation that covers the range, or the pieces (cuMemCreate) that do, in order. Throws
  /// ExportError.
  virtual std::vector<Exported> export_range(const void* address, uint64_t bytes) const = 0;
  /// The GPU to run the NIC on for memory of `address`: the last other one that reaches it, since
  /// PEs take the first ones for their kernels; else the one it lies on. Throws ExportError.
  virtual GpuId gpu_for_nic(const void* address) const = 0;
  /// The number of the GPU that the address lies on. Throws ExportError.
  virtual int number_of(const void* address) const = 0;
  /// New memory at the start of a page, on the GPU that is current in the calling thread, or on the
  /// one of number `otherwise` if none is. Throws ExportError.
  virtual std::shared_ptr<std::byte> allocate(uint64_t bytes, int otherwise) const = 0;
  /// The GPU of that number. Throws ExportError.
  virtual GpuId gpu_at(int index) const = 0;
  /// Copies memory of the GPU that the address lies on. Throws ExportError.
  virtual std::unique_ptr<GpuCopier> make_copier(const void* address) const = 0;
  /// True when kernels that use `address` and kernels of another process on `gpu` take turns: they
  /// share a GPU, and MPS does not run.
  virtual bool takes_turns(const void* address, const GpuId& gpu) const = 0;
};

/// CUDA memory by the driver this process has loaded; owns nothing where it has loaded none.
std::unique_ptr<Exporter> make_cuda_exporter();

}  // namespace peal::softnic::gpu
