// SPDX-License-Identifier: Apache-2.0
#include "host/transport/proxy.h"

#include <sys/prctl.h>

#include <mutex>

#include "base/patience.h"

namespace peal {
namespace {

constexpr Patience::Nap kLongestNap{320};

}  // namespace

Proxy::Proxy() : thread_([this] { run(); }) {}

Proxy::~Proxy() {
  stop_.store(true, std::memory_order_relaxed);
  thread_.join();
}

void Proxy::add(ProxyQueue& queue) {
  while_paused([&] { queues_.add(&queue); });
}

void Proxy::remove(ProxyQueue& queue) {
  while_paused([&] { queues_.remove(&queue); });
}

void Proxy::run() {
  ::prctl(PR_SET_NAME, "peal-proxy");
  ::prctl(PR_SET_TIMERSLACK, 1000);  // or a nap of 20 us takes 70
  Patience patience(kLongestNap);
  while (!stop_.load(std::memory_order_relaxed)) {
    mutex_.let_visitors_in();
    bool worked;
    {
      const std::lock_guard lock(mutex_.own());
      worked = queues_.round([](ProxyQueue* queue) { return queue->advance(); },
                             [](ProxyQueue* queue) { return queue->busy(); });
    }
    patience.after(worked);
  }
}

}  // namespace peal
