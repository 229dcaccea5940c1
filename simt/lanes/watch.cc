// SPDX-License-Identifier: Apache-2.0
#include "simt/lanes/watch.h"

#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "base/immortal.h"
#include "simt/lanes/suspend.h"
#include "simt/lanes/symbol.h"

namespace peal::simt {
namespace {

// A signal that programs seldom use, debuggers pass on in silence, and that does nothing by itself.
constexpr int kTickSignal = SIGURG;

constinit thread_local SignalWatch* this_watch = nullptr;

// What the process had before, and has again for what is none of ours. C keeps handlers for the
// process, so this is global.
struct sigaction tick_before;

void pass_on(const struct sigaction& before, int signal, siginfo_t* info, void* context) {
  if ((before.sa_flags & SA_SIGINFO) != 0) return before.sa_sigaction(signal, info, context);
  if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) before.sa_handler(signal);
}

void on_tick(int signal, siginfo_t* info, void* context) {
  const bool ours = info->si_code == SI_TIMER && this_watch != nullptr;
  if (!ours) return pass_on(tick_before, signal, info, context);
  this_watch->tick(code_of(context));
}

void install_tick() {
  struct sigaction tick {};
  tick.sa_sigaction = on_tick;
  tick.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK;
  ::sigaction(kTickSignal, &tick, &tick_before);
}

std::string span_of(unsigned ms) {
  return ms % 1000 == 0 ? std::to_string(ms / 1000) + " s" : std::to_string(ms) + " ms";
}

void tell(const BusyLane& lane) {
  const std::string kernel = lane.kernel == 0 ? "" : function_at(lane.kernel);
  const std::string text =
      "peal: kernel " + (kernel.empty() ? "(unnamed)" : kernel) + ", block " +
      std::to_string(lane.block) + ", thread " + std::to_string(lane.thread) + ", has run for " +
      span_of(lane.busy_ms) + " without a call of peal or a yield, and is at " +
      place_of_code(lane.code) +
      ". If it waits in a loop of its own, what it waits for may not run meanwhile: wait by "
      "wait_until(), or call test() in the loop (docs/debugging.md)\n";
  if (::write(STDERR_FILENO, text.data(), text.size()) < 0) return;
}

/// The thread that tells what watches have found.
class Teller {
 public:
  /// This process's: a child of fork() has no thread of its parent's.
  static Teller& of_process() {
    static Immortal<std::mutex> mutex;
    static Immortal<std::map<pid_t, Teller>> of_processes;  // and of those it was forked from
    const std::lock_guard lock(*mutex);
    return (*of_processes)[::getpid()];
  }
  Teller() {
    std::thread([this] { run(); }).detach();
  }
  Teller(const Teller&) = delete;
  Teller& operator=(const Teller&) = delete;

  Bell& bell() { return bell_; }
  void add(SignalWatch& watch) {
    const std::lock_guard lock(mutex_);
    watches_.insert(&watch);
  }
  void remove(SignalWatch& watch) {
    const std::lock_guard lock(mutex_);
    watches_.erase(&watch);
  }

 private:
  [[noreturn]] void run() {
    ::pthread_setname_np(::pthread_self(), "peal-watch");
    for (;;) {
      bell_.wait();
      const std::lock_guard lock(mutex_);
      BusyLane found;
      for (SignalWatch* const watch : watches_) {
        if (watch->take(&found)) tell(found);
      }
    }
  }

  Bell bell_;
  std::mutex mutex_;  // guards what follows
  std::set<SignalWatch*> watches_;
};

}  // namespace

SignalWatch::SignalWatch() : bell_(Teller::of_process().bell()) {
  static std::once_flag installed;
  std::call_once(installed, install_tick);
  tell_of_crashes();
  this_watch = this;
  sigset_t ticks;
  ::sigemptyset(&ticks);
  ::sigaddset(&ticks, kTickSignal);
  ::pthread_sigmask(SIG_UNBLOCK, &ticks, nullptr);
  sigevent event{};
  event.sigev_notify = SIGEV_THREAD_ID;
  event.sigev_signo = kTickSignal;
  event._sigev_un._tid = static_cast<pid_t>(::syscall(SYS_gettid));
  // Without a timer nobody is told, which is all that is lost.
  timed_ = ::timer_create(CLOCK_THREAD_CPUTIME_ID, &event, &timer_) == 0;
  Teller::of_process().add(*this);
}

SignalWatch::~SignalWatch() {
  if (timed_) ::timer_delete(timer_);
  this_watch = nullptr;
  Teller::of_process().remove(*this);
}

void SignalWatch::begin(unsigned busy_ms) {
  state_.store(kNothing);
  if (busy_ms == busy_ms_) return;
  busy_ms_ = busy_ms;
  const timespec every{static_cast<time_t>(busy_ms / 1000),
                       static_cast<long>(busy_ms % 1000) * 1'000'000L};
  const itimerspec period{every, every};
  if (timed_) ::timer_settime(timer_, 0, &period, nullptr);
}

void SignalWatch::tick(uint64_t code) {
  const uint64_t now = slices_.load(std::memory_order_relaxed);
  const bool same = last_.exchange(now, std::memory_order_relaxed) == now && now != 0;
  const Lane* const lane = current_lane();
  if (!same || lane == nullptr || state_.load(std::memory_order_relaxed) != kNothing) return;
  found_ = {reinterpret_cast<uint64_t>(kernel()), code, lane->block->number(), thread_rank(),
            busy_ms_};
  state_.store(kFound, std::memory_order_release);
  bell_.ring();
}

bool SignalWatch::take(BusyLane* found) {
  int expected = kFound;
  if (!state_.compare_exchange_strong(expected, kTaken)) return false;
  *found = found_;
  return true;
}

}  // namespace peal::simt
