// SPDX-License-Identifier: Apache-2.0
#include "host/transport/ibgda.h"

#include <utility>

#include "host/base/error.h"

namespace peal {
namespace {

// Next to a GPU it is worth its fences: there the NIC itself may be many lanes of one.
nic::KeyOrdering payload_ordering(const nic::Device& device, RelaxedOrdering asked, bool on_gpu) {
  if (device.capabilities().relaxed_only) {
    if (asked != RelaxedOrdering::kOff) return nic::KeyOrdering::kRelaxed;
    fail(ErrorCode::kConfiguration,
         "PEAL_RELAXED_ORDERING=off, but {} takes memory keys with relaxed ordering only "
         "(mkc_order_write_after_write_ro_only): set it to auto, or choose another NIC by PEAL_HCA",
         device.name());
  }
  const bool relaxed = asked == RelaxedOrdering::kOn || (asked == RelaxedOrdering::kAuto && on_gpu);
  return relaxed ? nic::KeyOrdering::kRelaxed : nic::KeyOrdering::kStrict;
}

}  // namespace

IbgdaNic::IbgdaNic(nic::Device opened, std::shared_ptr<Gpu> kernels_gpu, RelaxedOrdering asked)
    : gpu(std::move(kernels_gpu)),
      payload(payload_ordering(opened, asked, gpu != nullptr)),
      words(opened.capabilities().relaxed_only ? payload : nic::KeyOrdering::kStrict),
      device(std::move(opened)),
      domain(device) {}

Backing queue_memory(const std::shared_ptr<Gpu>& gpu, size_t bytes) {
  return gpu ? make_cuda_backing(gpu, bytes, "queues") : make_host_backing(bytes, "peal-queues");
}

nic::Memory memory_of(const std::shared_ptr<Gpu>& gpu, std::byte* address, size_t bytes) {
  if (!gpu || !gpu->holds(address)) return {address, bytes};
  gpu->synchronize_calls_on(address);
  return {address, bytes, [gpu](std::byte* first_page, size_t whole) {
            return gpu->export_dma_buf(first_page, whole);
          }};
}

}  // namespace peal
