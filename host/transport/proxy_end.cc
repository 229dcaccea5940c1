// SPDX-License-Identifier: Apache-2.0
#include "host/transport/proxy_end.h"

namespace peal {
namespace {

// Beside what kernels can have posted: the request by which a queue finds itself drained.
constexpr uint32_t kOwnRequests = 2;

}  // namespace

ProxyEnd::ProxyEnd(const IbgdaNic& nic, Proxy& proxy, const ProxyMemory& memory)
    : nic_(nic.device, nic.domain, memory.depth + kOwnRequests),
      proxy_(proxy),
      queue_(nic_, memory) {
  proxy_.add(queue_);
}

ProxyEnd::~ProxyEnd() { proxy_.remove(queue_); }

void ProxyEnd::to_reset() {
  proxy_.while_paused([this] { queue_.stop(); });
  nic_.to_reset();
}

void ProxyEnd::connect(const nic::RemoteQueue& remote, uint32_t psn) {
  nic_.connect(remote, psn);
  proxy_.while_paused([this] { queue_.start(); });
}

nic::QueueState ProxyEnd::state() const { return nic_.state(); }

}  // namespace peal
