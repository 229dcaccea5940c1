// SPDX-License-Identifier: Apache-2.0
//
// The engine thread: see driver.h for the loop.
#include "softnic/driver.h"

#include <signal.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>

#include "softnic/engine/engine.h"
#include "softnic/rest.h"

namespace peal::softnic {

namespace {

constexpr uint32_t kBudget = 64;             // WQEs of one queue pair in a round
constexpr uint32_t kIdleSlice = 64;          // idle queue pairs looked at in a round
constexpr uint32_t kRoundsUntilIdle = 4096;  // without work, on the busy list

}  // namespace

uint64_t now_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(t.tv_nsec);
}

Driver::Driver(Port& port, ShmWire& wire) : port_(port), wire_(wire), owner_(getpid()) {}

void Driver::start(std::function<void()> collect) {
  collect_ = std::move(collect);
  thread_ = std::thread([this] { run(); });
}

void Driver::pause() {
  waiting_.fetch_add(1, std::memory_order_relaxed);
  mutex_.lock();
  waiting_.fetch_sub(1, std::memory_order_relaxed);
}

void Driver::resume() { mutex_.unlock(); }

Driver::~Driver() {
  if (!thread_.joinable()) return;
  if (getpid() != owner_) {
    thread_.detach();  // it stayed in the parent
    return;
  }
  stop_.store(true, std::memory_order_relaxed);
  thread_.join();
}

void Driver::watch(uint32_t qpn) {
  QueuePair& qp = port_.qps[qpn];
  if (qp.active) return;
  std::erase(idle_, qpn);
  qp.active = true;
  qp.idle_rounds = 0;
  busy_.push_back(qpn);
}

void Driver::forget(uint32_t qpn) {
  std::erase(idle_, qpn);
  std::erase(busy_, qpn);
  port_.qps[qpn].active = false;
}

void Driver::run() {
  prctl(PR_SET_NAME, "peal-softnic");
  prctl(PR_SET_TIMERSLACK, 1000);  // or a sleep of 20 us takes 70
  uint32_t idle_rounds = 0;
  while (!stop_.load(std::memory_order_relaxed)) {
    while (waiting_.load(std::memory_order_relaxed) > 0) sched_yield();
    bool worked;
    {
      const std::lock_guard lock(mutex_);
      worked = round();
    }
    idle_rounds = worked ? 0 : idle_rounds + 1;
    if (!worked) rest(idle_rounds);
  }
  const std::lock_guard lock(mutex_);
  round();
}

/// What a fault plan does at this moment; false when the NIC has stopped.
bool Driver::attend_faults(uint64_t now) {
  Faults& faults = *port_.faults;
  faults.begin_timed(now);
  if (faults.killed) kill(getpid(), SIGKILL);
  if (faults.stopped) return false;
  if (const bool down = port_down(port_, now); down != faults.down) {
    faults.down = down;
    using Kind = AsyncEvent::Kind;
    port_.events.raise(down ? Kind::kPortDown : Kind::kPortUp, 1);
  }
  release_late(port_, now);
  return true;
}

bool Driver::round() {
  const uint64_t now = now_ns();
  if (port_.faults != nullptr && !attend_faults(now)) return false;
  bool worked = port_.by_value && hear_registers(port_);
  worked |= wire_.poll(now);
  worked |= poll_busy(now);
  worked |= poll_idle(now);
  wire_.flush();
  if (port_.events.count > 0 || port_.events.fired != 0) collect_();
  return worked;
}

bool Driver::poll_busy(uint64_t now) {
  bool worked = false;
  for (size_t i = 0; i < busy_.size();) {
    QueuePair& qp = port_.qps[busy_[i]];
    if (advance(port_, wire_, qp, now, kBudget)) {
      worked = true;
      qp.idle_rounds = 0;
    } else if (++qp.idle_rounds > kRoundsUntilIdle && !unsettled(qp)) {
      qp.active = false;
      idle_.push_back(busy_[i]);
      busy_[i] = busy_.back();
      busy_.pop_back();
      continue;
    }
    ++i;
  }
  return worked;
}

bool Driver::poll_idle(uint64_t now) {
  bool worked = false;
  size_t looks = std::min<size_t>(kIdleSlice, idle_.size());
  for (; looks > 0 && !idle_.empty(); --looks) {
    if (idle_at_ >= idle_.size()) idle_at_ = 0;
    QueuePair& qp = port_.qps[idle_[idle_at_]];
    if (!rung(port_, qp) && !unsettled(qp)) {
      ++idle_at_;
      continue;
    }
    idle_[idle_at_] = idle_.back();
    idle_.pop_back();
    qp.active = true;
    qp.idle_rounds = 0;
    busy_.push_back(qp.qpn);
    worked |= advance(port_, wire_, qp, now, kBudget);
  }
  return worked;
}

}  // namespace peal::softnic
