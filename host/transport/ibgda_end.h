// SPDX-License-Identifier: Apache-2.0
//
// The end of a queue that the NIC reads itself: made by firmware commands, in the queue's memory.
#pragma once

#include "host/transport/ibgda.h"
#include "host/transport/queue_end.h"

namespace peal {

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
