// SPDX-License-Identifier: Apache-2.0
#include "host/transport/ibgda_end.h"

namespace peal {

IbgdaEnd::IbgdaEnd(const IbgdaNic& nic, const nic::Uar& uar, const nic::QueuePlace& place,
                   uint32_t depth)
    : cq_(nic.device, uar, place),
      pair_(nic.device, nic.domain, uar, cq_, place, {.depth = depth}) {}

void IbgdaEnd::connect(const nic::RemoteQueue& remote, uint32_t psn) {
  pair_.to_init();
  pair_.to_rtr(remote);
  pair_.to_rts(remote.path, psn);
}

}  // namespace peal
