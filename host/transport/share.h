// SPDX-License-Identifier: Apache-2.0
//
// The ways to use another PE's memory without a NIC, as host/transport/p2p.cc needs them: what a PE
// offers of its own, and what another makes of the offer.
//
//   share_pages.cc   kernels on CPUs: a memfd, opened through /proc/PID/fd
//   share_gpu.cc     kernels on GPUs: an IPC handle, opened over NVLink, PCIe or on the same GPU
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "host/base/place.h"
#include "host/memory/gpu.h"
#include "host/transport/p2p.h"

namespace peal {

/// What a PE tells the others of its part of a window.
struct Offer {
  uint64_t address;  // in its process
  uint64_t bytes;
  uint64_t file_device;  // of the memfd: so that no other file is taken for it
  uint64_t file_inode;
  int32_t fd;           // -1 = none
  uint32_t has_handle;  // of a GPU's memory
  uint64_t offset;      // from where the handle's memory begins
  cuda::IpcHandle handle;
  cuda::Uuid gpu;
};

/// A PE's part, mapped; or refused, with a null mapping.
struct Answer {
  PeerMemory::Mapping mapping;
  std::string how;
  P2p::Link link = P2p::Link::kNone;
};

inline Answer refused(std::string why) { return {nullptr, std::move(why)}; }

/// Memory that is in this process already: nothing to map, nothing to end.
inline PeerMemory::Mapping borrowed(const Offer& offer) {
  return {reinterpret_cast<std::byte*>(offer.address), [](std::byte*) {}};
}

Offer offer_pages(std::byte* address, size_t bytes, int fd);
Answer reach_pages(const Offer& offer, const Place& here, const Place& there);

Offer offer_gpu(const Gpu& gpu, std::byte* address, size_t bytes);
Answer reach_gpu(std::shared_ptr<Gpu> gpu, const Offer& offer, const Place& here,
                 const Place& there);

}  // namespace peal
