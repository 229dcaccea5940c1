// SPDX-License-Identifier: Apache-2.0
//
// The end of a queue that the NIC reads itself: made by firmware commands, in the queue's memory.
#include "device/base/order.h"
#include "host/memory/backing_cuda.h"
#include "host/nic/mlx5/queue_pair.h"
#include "host/nic/queue_end.h"

namespace peal::nic {
namespace {

class DrivenEnd final : public QueueEnd {
 public:
  DrivenEnd(const Device& device, const ProtectionDomain& domain, const QueueBell& bell,
            const QueuePosition& position, QueueOrder order)
      : DrivenEnd(device, domain, bell, position.layout.depth, order,
                  QueuePlace::of(position.layout, position.region, position.offset)) {}

  uint32_t number() const override { return pair_.number(); }
  void to_reset() override { pair_.to_reset(); }
  void connect(const RemoteQueue& remote, uint32_t psn) override {
    pair_.to_init();
    pair_.to_rtr(remote);
    pair_.to_rts(remote.path, psn);
  }
  void ring(uint64_t word) const override {
    if (page_of_) return page_of_->copy(doorbell_, &word, sizeof(word));
    __atomic_thread_fence(__ATOMIC_SEQ_CST);  // behind the record
    store_mmio(doorbell_, word);
    flush_mmio();
  }
  QueueState state() const override { return pair_.query_state(); }

 private:
  DrivenEnd(const Device& device, const ProtectionDomain& domain, const QueueBell& bell,
            uint32_t depth, QueueOrder order, const QueuePlace& place)
      : page_of_(bell.page_of),
        doorbell_(static_cast<uint64_t*>(bell.page.doorbell())),
        cq_(device, bell.page, place),
        pair_(device, domain, bell.page, cq_, place,
              {.depth = depth, .settings = {.order = order}}) {}

  std::shared_ptr<Gpu> page_of_;
  uint64_t* doorbell_;
  DrivenCompletionQueue cq_;
  DrivenQueuePair pair_;
};

}  // namespace

std::unique_ptr<QueueEnd> make_driven_end(const Device& device, const ProtectionDomain& domain,
                                          const QueueBell& bell, const QueuePosition& position,
                                          QueueOrder order) {
  return std::make_unique<DrivenEnd>(device, domain, bell, position, order);
}

}  // namespace peal::nic
