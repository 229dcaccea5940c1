// SPDX-License-Identifier: Apache-2.0
#include "host/transport/proxy.h"

#include <sys/prctl.h>

#include <algorithm>
#include <mutex>

#include "host/base/patience.h"

namespace peal {
namespace {

constexpr size_t kIdleLooks = 64;            // idle queues looked at in a round
constexpr uint32_t kRoundsUntilIdle = 4096;  // without work, as a busy one
constexpr Patience::Nap kLongestNap{320};

}  // namespace

Proxy::Proxy() : thread_([this] { run(); }) {}

Proxy::~Proxy() {
  stop_.store(true, std::memory_order_relaxed);
  thread_.join();
}

void Proxy::add(ProxyQueue& queue) {
  while_paused([&] { busy_.push_back({&queue, 0}); });
}

void Proxy::remove(ProxyQueue& queue) {
  while_paused([&] {
    std::erase(idle_, &queue);
    std::erase_if(busy_, [&](const Served& served) { return served.queue == &queue; });
  });
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
      worked = round();
    }
    patience.after(worked);
  }
}

bool Proxy::round() {
  const bool worked = serve_busy();
  return look_at_idle() || worked;
}

bool Proxy::serve_busy() {
  bool worked = false;
  for (size_t i = 0; i < busy_.size();) {
    Served& served = busy_[i];
    if (served.queue->advance()) {
      worked = true;
      served.idle_rounds = 0;
    } else if (++served.idle_rounds > kRoundsUntilIdle && !served.queue->busy()) {
      idle_.push_back(served.queue);
      served = busy_.back();
      busy_.pop_back();
      continue;
    }
    ++i;
  }
  return worked;
}

bool Proxy::look_at_idle() {
  bool found = false;
  for (size_t looks = std::min(kIdleLooks, idle_.size()); looks > 0 && !idle_.empty(); --looks) {
    if (idle_at_ >= idle_.size()) idle_at_ = 0;
    ProxyQueue* const queue = idle_[idle_at_];
    if (!queue->busy()) {
      ++idle_at_;
      continue;
    }
    idle_[idle_at_] = idle_.back();
    idle_.pop_back();
    busy_.push_back({queue, 0});
    found = true;
  }
  return found;
}

}  // namespace peal
