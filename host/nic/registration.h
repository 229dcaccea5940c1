// SPDX-License-Identifier: Apache-2.0
//
// Making memory known to a NIC, the host's or a GPU's: as a memory region (what work requests name)
// or as a queue region (what queues are built in; an mlx5 calls it umem).
//
//   host memory   by its address
//   of a GPU      as a dma-buf; where that is refused by its address, which nvidia-peermem explains
//                 to the NIC's driver
//
// Each registration keeps which it was, and why it was not the first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "device/shared/nic_key.h"
#include "host/base/dma_buf.h"
#include "host/nic/device.h"

namespace peal::nic {

/// The key that verbs gives this number, as kernels write it into requests.
NicKey key_of(uint32_t number);

/// Memory that a NIC is to know.
struct Memory {
  std::byte* address;
  size_t bytes;
  /// Exports whole pages around it as a dma-buf; null for host memory.
  std::function<DmaBuf(std::byte* first_page, size_t bytes)> export_dma_buf = nullptr;
};

/// How a NIC got to know a range, and why not better.
struct Registration {
  enum class How { kHostMemory, kDmaBuf, kAddress };
  How how = How::kHostMemory;
  std::string why_not;  // a dma-buf; empty unless by kAddress

  /// "host memory", "GPU memory by dma-buf", "GPU memory by its address; no dma-buf: ...".
  std::string describe() const;
};

/// What is tried: each attempt makes and keeps an object of rdma-core's, or answers false and
/// leaves errno.
struct Attempts {
  const char* by_dma_buf;  // the calls, for people
  const char* by_address;
  const char* kernel;                        // the first that takes a dma-buf so
  const char* way_out;                       // "", or "; " and what does without it
  std::function<bool(int fd)> from_dma_buf;  // null: the library lacks it
  std::function<bool()> from_address;
};

/// Throws kSystem that names each call that refused `memory`, why, and the remedy.
Registration make_known(const Device& device, const Memory& memory, const Attempts& attempts);

/// Of the host's memory.
uint64_t host_page_bytes();

/// How writes into a region may pass one another on the bus.
enum class KeyOrdering {
  kStrict,   // a later write is never visible before an earlier one: signals, flags; but of a NIC
             // that takes relaxed keys only (placement.h)
  kRelaxed,  // until a completion or a strict access: data
};

/// A range the NIC may read, write and do atomics on, locally and for peers: an address in a work
/// queue entry is the offset from the start of the page that the range begins in.
class MemoryRegion {
 public:
  /// Throws kSystem that names each call that refused it, why, and the remedy.
  MemoryRegion(const Device& device, const ProtectionDomain& domain, const Memory& memory,
               KeyOrdering ordering = KeyOrdering::kStrict);

  /// Where in its page `address` lies: what a registration of it calls its first byte.
  static uint64_t first_offset(const std::byte* address);

  /// The keys as they stand in work queue entries.
  NicKey lkey() const { return key_of(mr_->lkey); }
  NicKey rkey() const { return key_of(mr_->rkey); }
  /// The keys as verbs has them.
  uint32_t lkey_number() const { return mr_->lkey; }
  uint32_t rkey_number() const { return mr_->rkey; }
  size_t bytes() const { return mr_->length; }
  const Registration& registration() const { return registration_; }

 private:
  OwnedObject<ibv_mr, int> mr_;
  Registration registration_;
};

/// Memory in which queues are built that the NIC reads itself: a queue's place in it is a byte
/// offset. The model's (model_library.h).
class QueueRegion {
 public:
  /// `memory` is page-aligned. Throws as MemoryRegion does.
  QueueRegion(const Device& device, const Memory& memory);
  uint32_t number() const { return number_; }  // by which the NIC knows it
  const Registration& registration() const { return registration_; }

 private:
  ModelObject region_;
  uint32_t number_ = 0;
  Registration registration_;
};

}  // namespace peal::nic
