// SPDX-License-Identifier: Apache-2.0
//
// The end of a queue that a CPU serves: a queue pair made by plain verbs, and the Proxy that
// carries the kernels' work requests there.
#pragma once

#include "host/transport/ibgda.h"
#include "host/transport/proxy.h"
#include "host/transport/queue_end.h"

namespace peal {

class ProxyEnd final : public QueueEnd {
 public:
  /// `memory` is prepared (nic::QueueMemoryLayout). `proxy` outlives the end.
  ProxyEnd(const IbgdaNic& nic, Proxy& proxy, const ProxyMemory& memory);
  ~ProxyEnd() override;

  uint32_t number() const override { return nic_.number(); }
  void to_reset() override;
  void connect(const nic::RemoteQueue& remote, uint32_t psn) override;
  void ring(uint64_t) const override {}  // the proxy watches the record
  nic::QueueState state() const override;

 private:
  nic::VerbsQueue nic_;
  Proxy& proxy_;
  ProxyQueue queue_;
};

}  // namespace peal
