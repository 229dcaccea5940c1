// SPDX-License-Identifier: Apache-2.0
//
// What all queues of a PE that go by one NIC share.
#pragma once

#include <cstdint>
#include <memory>

#include "host/base/config.h"
#include "host/memory/backing.h"
#include "host/memory/backing_cuda.h"
#include "host/nic/device.h"
#include "host/nic/registration.h"

namespace peal {

/// One NIC of a PE, open.
struct IbgdaNic {
  /// `gpu` is that of the kernels, null when they run on the CPU; `asked` is
  /// PEAL_RELAXED_ORDERING. Throws kConfiguration for `off` where the NIC has relaxed ordering
  /// only.
  IbgdaNic(nic::Device opened, std::shared_ptr<Gpu> gpu, RelaxedOrdering asked);

  std::shared_ptr<Gpu> gpu;
  nic::KeyOrdering payload;                           // of what is no word
  nic::KeyOrdering words;                             // strict where the NIC has that
  nic::QueueOrder order = nic::QueueOrder::kDefault;  // of its queue pairs
  nic::Device device;
  nic::ProtectionDomain domain;
};

/// Zeroed memory for queues, close to the kernels.
Backing queue_memory(const std::shared_ptr<Gpu>& gpu, size_t bytes);

/// Memory of kernels, as the NIC is told of it: of the host, or of a GPU, which exports a dma-buf
/// of it. `gpu` is that of the kernels, null when they run on the CPU.
nic::Memory memory_of(const std::shared_ptr<Gpu>& gpu, std::byte* address, size_t bytes);

}  // namespace peal
