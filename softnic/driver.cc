// SPDX-License-Identifier: Apache-2.0
//
// The engine thread: see driver.h for the loop.
#include "softnic/driver.h"

#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/patience.h"
#include "softnic/engine/arm.h"
#include "softnic/engine/engine.h"
#include "softnic/lost_memory.h"

namespace peal::softnic {

namespace {

constexpr uint32_t kBudget = 64;  // WQEs of one queue pair in a round
constexpr Patience::Nap kLongestNap{200};
constexpr uint64_t kTurn = 100'000;  // ns, the shortest there is

/// sched_attr of sched_setattr(2), whose header has names that sched.h has, too.
struct TurnsOfThread {
  uint32_t size;
  uint32_t policy;
  uint64_t flags;
  int32_t nice;
  uint32_t priority;
  uint64_t runtime;  // under SCHED_OTHER: of a turn, in ns
  uint64_t deadline;
  uint64_t period;
};
static_assert(sizeof(TurnsOfThread) == 48);

/// Asks for short turns on the CPU, which come soon; Linux before 6.12 takes no notice. No more of
/// the CPU comes with it. On a busy machine a turn is else as long as everybody's, some ms, and who
/// yields waits for as long.
void ask_for_short_turns() {
  TurnsOfThread mine = {};
  if (syscall(SYS_sched_getattr, 0, &mine, sizeof mine, 0) != 0) return;
  if (mine.policy != SCHED_OTHER) return;
  mine.size = sizeof mine;
  mine.runtime = kTurn;
  static_cast<void>(syscall(SYS_sched_setattr, 0, &mine, 0));
}

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
  ask_for_short_turns();
  const SurvivesLostMemory survives(port_);
  Patience patience(kLongestNap);
  while (!stop_.load(std::memory_order_relaxed)) {
    mutex_.let_visitors_in();
    bool worked;
    {
      const std::lock_guard lock(mutex_.own());
      worked = round();
    }
    patience.after(worked, [this](Patience::Nap nap) { rest(nap); });
  }
  const std::lock_guard lock(mutex_.own());
  round();
}

void EngineThread::rest(Patience::Nap nap) const {
  if (!listens_) return std::this_thread::sleep_for(nap);
  wire_.rest(nap);
}

bool EngineThread::round() {
  const uint64_t now = monotonic_ns();
  listens_ = false;
  if (port_.faults != nullptr && !attend_faults(port_, now)) {
    if (port_.faults->killed) kill(getpid(), SIGKILL);
    return false;
  }
  listens_ = true;
  bool worked = port_.by_value && hear_registers(port_);
  hear_arms(port_);
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
