// SPDX-License-Identifier: Apache-2.0
//
// The engine thread: see driver.h for the loop.
#include "softnic/driver.h"

#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/patience.h"
#include "softnic/engine/engine.h"
#include "softnic/lost_memory.h"

namespace peal::softnic {

namespace {

constexpr uint32_t kBudget = 64;  // WQEs of one queue pair in a round
constexpr Patience::Nap kLongestNap{200};

}  // namespace

EngineThread::EngineThread(Port& port, Wires wires) : port_(port), wire_(wires), owner_(getpid()) {}

void EngineThread::start(std::function<void()> collect) {
  collect_ = std::move(collect);
  thread_ = std::thread([this] { run(); });
}

EngineThread::~EngineThread() {
  if (!thread_.joinable()) return;
  if (getpid() != owner_) {
    thread_.detach();  // it stayed in the parent
    return;
  }
  stop_.store(true, std::memory_order_relaxed);
  thread_.join();
}

void EngineThread::run() {
  prctl(PR_SET_NAME, "peal-softnic");
  prctl(PR_SET_TIMERSLACK, 1000);  // or a sleep of 20 us takes 70
  const SurvivesLostMemory survives(port_);
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
  const std::lock_guard lock(mutex_.own());
  round();
}

bool EngineThread::round() {
  const uint64_t now = monotonic_ns();
  if (port_.faults != nullptr && !attend_faults(port_, now)) {
    if (port_.faults->killed) kill(getpid(), SIGKILL);
    return false;
  }
  bool worked = port_.by_value && hear_registers(port_);
  worked |= wire_.poll(now);
  worked |= queues_.round(
      [&](uint32_t qpn) { return advance(port_, wire_, port_.qps[qpn], now, kBudget); },
      [&](uint32_t qpn) {
        QueuePair& qp = port_.qps[qpn];
        return rung(port_, qp) || unsettled(qp);
      });
  wire_.flush();
  if (port_.events.count > 0 || port_.events.fired != 0) collect_();
  return worked;
}

}  // namespace peal::softnic
