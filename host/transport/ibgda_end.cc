// SPDX-License-Identifier: Apache-2.0
#include "host/transport/ibgda_end.h"

#include "device/base/order.h"

namespace peal {

IbgdaEnd::IbgdaEnd(const IbgdaNic& nic, const nic::Uar& uar, const nic::QueuePlace& place,
                   uint32_t depth)
    : page_of_(nic.device.software() ? nic.gpu : nullptr),
      doorbell_(static_cast<uint64_t*>(uar.doorbell())),
      cq_(nic.device, uar, place),
      pair_(nic.device, nic.domain, uar, cq_, place,
            {.depth = depth, .settings = {.force_order = nic.force_order}}) {}

void IbgdaEnd::connect(const nic::RemoteQueue& remote, uint32_t psn) {
  pair_.to_init();
  pair_.to_rtr(remote);
  pair_.to_rts(remote.path, psn);
}

void IbgdaEnd::ring(uint64_t word) const {
  if (page_of_) return page_of_->copy(doorbell_, &word, sizeof(word));
  __atomic_thread_fence(__ATOMIC_SEQ_CST);  // behind the record
  store_mmio(doorbell_, word);
  flush_mmio();
}

}  // namespace peal
