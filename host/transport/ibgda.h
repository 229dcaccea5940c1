// SPDX-License-Identifier: Apache-2.0
//
// What all queues of a PE share: its NIC.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "host/base/config.h"
#include "host/memory/backing_cuda.h"
#include "host/nic/device.h"
#include "host/nic/registration.h"

namespace peal {

/// The NIC of a PE, open.
struct IbgdaNic {
  /// `gpu` is that of the kernels, null when they run on the CPU. For NicUse::kVerbs any NIC will
  /// do.
  IbgdaNic(const Config& config, std::shared_ptr<Gpu> gpu, nic::NicUse use = nic::NicUse::kDevx);

  std::shared_ptr<Gpu> gpu;
  nic::Ordering payload;  // of what is no word: PEAL_RELAXED_ORDERING
  std::string why;        // this device: "mlx5_3: same PCIe switch as GPU 2"
  nic::Device device;
  nic::ProtectionDomain domain;
};

/// Memory of kernels, as the NIC is told of it: of the host, or of a GPU, which lends it. `gpu` is
/// that of the kernels, null when they run on the CPU.
nic::Memory memory_of(const std::shared_ptr<Gpu>& gpu, std::byte* address, size_t bytes);

}  // namespace peal
