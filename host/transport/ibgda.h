// SPDX-License-Identifier: Apache-2.0
//
// What all queues of a PE share: its NIC, and the page they ring through.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "host/base/config.h"
#include "host/memory/backing_cuda.h"
#include "host/nic/device.h"

namespace peal {

/// The NIC of a PE, open.
struct IbgdaNic {
  /// `gpu` is that of the kernels, null when they run on the CPU.
  IbgdaNic(const Config& config, std::shared_ptr<Gpu> gpu);

  std::shared_ptr<Gpu> gpu;
  nic::Ordering payload;  // of what is no word: PEAL_RELAXED_ORDERING
  std::string why;        // this device: "mlx5_3: same PCIe switch as GPU 2"
  nic::Device device;
  nic::ProtectionDomain domain;
};

/// The doorbell page that the queues of a PE share. Made after the heap's window: the software NIC
/// may have gone to a GPU with it, and has its pages in GPU memory then. Outlived by the NIC.
class Doorbell {
 public:
  explicit Doorbell(const IbgdaNic& nic);

  const nic::Uar& uar() const { return uar_; }
  /// The register, as kernels store into it.
  uint64_t* address() const { return address_; }

 private:
  nic::Uar uar_;
  PinnedRange pinned_;  // the page, where it is the host's and kernels run on a GPU
  uint64_t* address_;
};

}  // namespace peal
