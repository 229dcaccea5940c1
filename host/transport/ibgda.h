// SPDX-License-Identifier: Apache-2.0
//
// What all queues of a PE that go by one NIC share: the NIC, and the page they ring through.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "host/base/config.h"
#include "host/memory/backing_cuda.h"
#include "host/nic/device.h"
#include "host/nic/registration.h"

namespace peal {

/// One NIC of a PE, open.
struct IbgdaNic {
  /// `gpu` is that of the kernels, null when they run on the CPU; `asked` is
  /// PEAL_RELAXED_ORDERING.
  IbgdaNic(nic::Device opened, std::shared_ptr<Gpu> gpu, RelaxedOrdering asked);

  std::shared_ptr<Gpu> gpu;
  nic::Ordering payload;  // of what is no word
  nic::Device device;
  nic::ProtectionDomain domain;
};

/// Memory of kernels, as the NIC is told of it: of the host, or of a GPU, which lends it. `gpu` is
/// that of the kernels, null when they run on the CPU.
nic::Memory memory_of(const std::shared_ptr<Gpu>& gpu, std::byte* address, size_t bytes);

/// The doorbell page that the queues of a PE and NIC share. Made after the heap's window: the
/// software NIC may have gone to a GPU with it, and has its pages in GPU memory then. Outlived by
/// the NIC.
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
