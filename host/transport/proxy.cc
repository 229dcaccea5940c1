// SPDX-License-Identifier: Apache-2.0
#include "host/transport/proxy.h"

#include <sys/prctl.h>

#include <mutex>

#include "base/patience.h"
#include "host/transport/connection.h"

namespace peal {
namespace {

constexpr Patience::Nap kLongestNapOfProxy{320};

// Beside what kernels can have posted: the request by which a queue finds itself drained.
constexpr uint32_t kOwnRequests = 2;

}  // namespace

Proxy::Proxy(const IbgdaNic& nic, bool flushes) {
  if (flushes) {
    constexpr size_t kPage = 4096;
    flushed_.emplace(queue_memory(nic.gpu, kPage));
    flushes_.emplace(nic.device, nic.domain,
                     memory_of(nic.gpu, flushed_->address(), flushed_->bytes()), [&](uint32_t qpn) {
                       const Endpoint end = endpoint_of(nic.device, qpn);
                       return path_to(nic.device, end, end);
                     });
  }
  thread_ = std::thread([this] { run(); });
}

Proxy::~Proxy() {
  stop_.store(true, std::memory_order_relaxed);
  thread_.join();
}

void Proxy::add(nic::CarriedQueue& queue) {
  while_paused([&] { queues_.add(&queue); });
}

void Proxy::remove(nic::CarriedQueue& queue) {
  while_paused([&] { queues_.remove(&queue); });
}

void Proxy::run() {
  ::prctl(PR_SET_NAME, "peal-proxy");
  ::prctl(PR_SET_TIMERSLACK, 1000);  // or a nap of 20 us takes 70
  Patience patience(kLongestNapOfProxy);
  while (!stop_.load(std::memory_order_relaxed)) {
    mutex_.let_visitors_in();
    bool worked;
    {
      const std::lock_guard lock(mutex_.own());
      worked = queues_.round([](nic::CarriedQueue* queue) { return queue->advance(); },
                             [](nic::CarriedQueue* queue) { return queue->busy(); });
    }
    patience.after(worked);
  }
}

ProxyEnd::ProxyEnd(const IbgdaNic& nic, Proxy& proxy, const nic::CarriedMemory& memory)
    : nic_(nic.device, nic.domain, memory.layout.depth + kOwnRequests),
      proxy_(proxy),
      queue_(nic::carry(nic_, memory, proxy.flushes())) {
  proxy_.add(*queue_);
}

ProxyEnd::~ProxyEnd() { proxy_.remove(*queue_); }

void ProxyEnd::to_reset() {
  proxy_.while_paused([this] { queue_->stop(); });
  nic_.to_reset();
}

void ProxyEnd::connect(const nic::RemoteQueue& remote, uint32_t psn) {
  nic_.connect(remote, psn);
  proxy_.while_paused([this] { queue_->start(); });
}

nic::QueueState ProxyEnd::state() const { return nic_.state(); }

}  // namespace peal
