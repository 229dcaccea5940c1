// SPDX-License-Identifier: Apache-2.0
//
// The thread that carries work requests to a NIC for kernels that cannot: it goes round all proxied
// queues of that NIC (base/busy_list.h), and rests when there is nothing (base/patience.h).
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <optional>
#include <thread>

#include "base/busy_list.h"
#include "base/visited_mutex.h"
#include "host/nic/carried_queue.h"
#include "host/nic/flush_reads.h"
#include "host/nic/queue_end.h"
#include "host/nic/verbs_queue.h"
#include "host/transport/ibgda.h"

namespace peal {

/// Owns the thread. Outlives the queues that it serves.
class Proxy {
 public:
  /// `flushes`: DUMPs of kernels are READs of memory of theirs through the NIC (flush_reads.h).
  /// Throws as FlushReads does.
  Proxy(const IbgdaNic& nic, bool flushes);
  ~Proxy();
  Proxy(const Proxy&) = delete;
  Proxy& operator=(const Proxy&) = delete;

  /// From now on the thread advances `queue`, until remove(). remove() returns when it does not any
  /// more. Thread-safe.
  void add(nic::CarriedQueue& queue);
  void remove(nic::CarriedQueue& queue);

  /// Null without flushes. For the thread alone.
  nic::FlushReads* flushes() { return flushes_ ? &*flushes_ : nullptr; }

  /// Runs `body` while the thread stands still.
  template <class Body>
  void while_paused(const Body& body) {
    const VisitedMutex::Visit visit(mutex_);
    body();
  }

 private:
  void run();

  std::optional<Backing> flushed_;  // memory of the kernels
  std::optional<nic::FlushReads> flushes_;
  VisitedMutex mutex_;
  std::atomic<bool> stop_{false};
  BusyList<nic::CarriedQueue*> queues_;
  std::thread thread_;  // last: uses all of the above
};

/// One for each of Rails::nics().
using Proxies = std::deque<Proxy>;

/// The end of a queue that a CPU serves: a queue pair made by plain verbs, and the Proxy that
/// carries the kernels' work requests there.
class ProxyEnd final : public nic::QueueEnd {
 public:
  /// `memory` is prepared (nic::QueueMemoryLayout). `proxy` outlives the end.
  ProxyEnd(const IbgdaNic& nic, Proxy& proxy, const nic::CarriedMemory& memory);
  ~ProxyEnd() override;

  uint32_t number() const override { return nic_.number(); }
  void to_reset() override;
  void connect(const nic::RemoteQueue& remote, uint32_t psn) override;
  void ring(uint64_t) const override {}  // the proxy watches what is posted
  nic::QueueState state() const override;

 private:
  nic::VerbsQueue nic_;
  Proxy& proxy_;
  std::unique_ptr<nic::CarriedQueue> queue_;
};

}  // namespace peal
