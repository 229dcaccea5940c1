// SPDX-License-Identifier: Apache-2.0
//
// What all queues of a PE that go by one NIC share, and a queue's end that the NIC serves.
#pragma once

#include <cstdint>
#include <memory>

#include "host/base/config.h"
#include "host/memory/backing.h"
#include "host/memory/backing_cuda.h"
#include "host/nic/device.h"
#include "host/nic/registration.h"
#include "host/transport/queue_end.h"

namespace peal {

/// One NIC of a PE, open.
struct IbgdaNic {
  /// `gpu` is that of the kernels, null when they run on the CPU; `asked` is
  /// PEAL_RELAXED_ORDERING. Throws kConfiguration for `off` where the NIC has relaxed ordering
  /// only.
  IbgdaNic(nic::Device opened, std::shared_ptr<Gpu> gpu, RelaxedOrdering asked);

  std::shared_ptr<Gpu> gpu;
  nic::Ordering payload;                              // of what is no word
  nic::Ordering words;                                // strict where the NIC has that
  nic::QueueOrder order = nic::QueueOrder::kDefault;  // of its queue pairs
  nic::Device device;
  nic::ProtectionDomain domain;
};

/// Zeroed memory for queues, close to the kernels.
Backing queue_memory(const std::shared_ptr<Gpu>& gpu, size_t bytes);

/// Memory of kernels, as the NIC is told of it: of the host, or of a GPU, which exports a dma-buf
/// of it. `gpu` is that of the kernels, null when they run on the CPU.
nic::Memory memory_of(const std::shared_ptr<Gpu>& gpu, std::byte* address, size_t bytes);

/// The end of a queue that the NIC reads itself: made by firmware commands, in the queue's memory.
class IbgdaEnd final : public QueueEnd {
 public:
  /// `place` is prepared (nic::QueueMemoryLayout). Throws what nic::QueuePair throws.
  IbgdaEnd(const IbgdaNic& nic, const nic::Uar& uar, const nic::QueuePlace& place, uint32_t depth);

  uint32_t number() const override { return pair_.number(); }
  void to_reset() override { pair_.to_reset(); }
  void connect(const nic::RemoteQueue& remote, uint32_t psn) override;
  void ring(uint64_t word) const override;
  nic::QueueState state() const override { return pair_.query_state(); }

 private:
  std::shared_ptr<Gpu> page_of_;  // that may hold the doorbell page, if the NIC is software
  uint64_t* doorbell_;
  nic::CompletionQueue cq_;
  nic::QueuePair pair_;
};

}  // namespace peal
