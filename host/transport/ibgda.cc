// SPDX-License-Identifier: Apache-2.0
//
// Opening a NIC, and letting kernels ring it.
#include "host/transport/ibgda.h"

#include <unistd.h>

#include <utility>

namespace peal {
namespace {

// Next to a GPU it is worth its fences: there the NIC itself may be many lanes of one.
nic::Ordering payload_ordering(RelaxedOrdering asked, bool on_gpu) {
  const bool relaxed = asked == RelaxedOrdering::kOn || (asked == RelaxedOrdering::kAuto && on_gpu);
  return relaxed ? nic::Ordering::kRelaxed : nic::Ordering::kStrict;
}

// Lets the GPU's kernels ring, if there are such and they cannot yet. A software NIC's page is
// memory; a ConnectX's are registers, which CUDA maps if asked for that.
PinnedRange pin_page(const IbgdaNic& nic, const nic::Uar& uar) {
  auto* const page = static_cast<std::byte*>(uar.base());
  const auto bytes = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  if (!nic.gpu || nic.gpu->knows(page)) return {};
  return nic.device.software() ? pin(nic.gpu, page, bytes) : pin_registers(nic.gpu, page, bytes);
}

}  // namespace

IbgdaNic::IbgdaNic(nic::Device opened, std::shared_ptr<Gpu> kernels_gpu, RelaxedOrdering asked)
    : gpu(std::move(kernels_gpu)),
      payload(payload_ordering(asked, gpu != nullptr)),
      device(std::move(opened)),
      domain(device) {}

nic::Memory memory_of(const std::shared_ptr<Gpu>& gpu, std::byte* address, size_t bytes) {
  if (!gpu || !gpu->holds(address)) return {address, bytes};
  return {address, bytes,
          [gpu](std::byte* first_page, size_t whole) { return gpu->lend(first_page, whole); }};
}

Doorbell::Doorbell(const IbgdaNic& nic)
    : uar_(nic.device),
      pinned_(pin_page(nic, uar_)),
      address_(static_cast<uint64_t*>(pinned_ ? nic.gpu->pointer_to(uar_.doorbell())
                                              : uar_.doorbell())) {}

}  // namespace peal
