// SPDX-License-Identifier: Apache-2.0
//
// Opening a NIC.
#include "host/transport/ibgda.h"

#include <utility>

namespace peal {
namespace {

// Next to a GPU it is worth its fences: there the NIC itself may be many lanes of one.
nic::Ordering payload_ordering(RelaxedOrdering asked, bool on_gpu) {
  const bool relaxed = asked == RelaxedOrdering::kOn || (asked == RelaxedOrdering::kAuto && on_gpu);
  return relaxed ? nic::Ordering::kRelaxed : nic::Ordering::kStrict;
}

}  // namespace

IbgdaNic::IbgdaNic(nic::Device opened, std::shared_ptr<Gpu> kernels_gpu, RelaxedOrdering asked)
    : gpu(std::move(kernels_gpu)),
      payload(payload_ordering(asked, gpu != nullptr)),
      device(std::move(opened)),
      domain(device) {}

Backing queue_memory(const std::shared_ptr<Gpu>& gpu, size_t bytes) {
  return gpu ? make_cuda_backing(gpu, bytes, "queues") : make_host_backing(bytes, "peal-queues");
}

nic::Memory memory_of(const std::shared_ptr<Gpu>& gpu, std::byte* address, size_t bytes) {
  if (!gpu || !gpu->holds(address)) return {address, bytes};
  return {address, bytes,
          [gpu](std::byte* first_page, size_t whole) { return gpu->lend(first_page, whole); }};
}

}  // namespace peal
