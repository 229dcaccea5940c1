// SPDX-License-Identifier: Apache-2.0
//
// The thread that carries work requests to a NIC for kernels that cannot: it goes round all proxied
// queues of that NIC, and rests when there is nothing (host/base/patience.h).
//
//   busy: looked at every round        idle: some each round, until kernels post
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <thread>
#include <vector>

#include "host/base/visited_mutex.h"
#include "host/transport/proxy_queue.h"

namespace peal {

/// Owns the thread. Outlives the queues that it serves.
class Proxy {
 public:
  Proxy();
  ~Proxy();
  Proxy(const Proxy&) = delete;
  Proxy& operator=(const Proxy&) = delete;

  /// From now on the thread advances `queue`, until remove(). remove() returns when it does not any
  /// more. Thread-safe.
  void add(ProxyQueue& queue);
  void remove(ProxyQueue& queue);

  /// Runs `body` while the thread stands still.
  template <class Body>
  void while_paused(const Body& body) {
    const VisitedMutex::Visit visit(mutex_);
    body();
  }

 private:
  struct Served {
    ProxyQueue* queue;
    uint32_t idle_rounds;
  };

  void run();
  bool round();
  bool serve_busy();
  bool look_at_idle();

  VisitedMutex mutex_;
  std::atomic<bool> stop_{false};
  std::vector<Served> busy_;
  std::vector<ProxyQueue*> idle_;
  size_t idle_at_ = 0;
  std::thread thread_;  // last: uses all of the above
};

/// One for each of Rails::nics().
using Proxies = std::deque<Proxy>;

}  // namespace peal
