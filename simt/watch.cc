// SPDX-License-Identifier: Apache-2.0
#include "simt/watch.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <cstdio>
#include <mutex>
#include <string>

#include "simt/sanitizer.h"
#include "simt/suspend.h"
#include "simt/symbol.h"

namespace peal::simt {
namespace {

// A signal that programs seldom use, debuggers pass on in silence, and that does nothing by itself.
constexpr int kTickSignal = SIGURG;

constinit thread_local Watch* this_watch = nullptr;

// What the process had before, and has again for what is none of ours. C keeps handlers for the
// process, so these are global.
struct sigaction tick_before;
struct sigaction fault_before;

uint64_t code_of(const void* context) {
  const auto& registers = static_cast<const ucontext_t*>(context)->uc_mcontext;
#if defined(__x86_64__)
  return static_cast<uint64_t>(registers.gregs[REG_RIP]);
#elif defined(__aarch64__)
  return registers.pc;
#else
  static_cast<void>(registers);
  return 0;
#endif
}

void pass_on(const struct sigaction& before, int signal, siginfo_t* info, void* context) {
  if ((before.sa_flags & SA_SIGINFO) != 0) return before.sa_sigaction(signal, info, context);
  if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) before.sa_handler(signal);
}

void on_tick(int signal, siginfo_t* info, void* context) {
  const bool ours = info->si_code == SI_TIMER && this_watch != nullptr;
  if (!ours) return pass_on(tick_before, signal, info, context);
  this_watch->tick(code_of(context));
}

// Only what may be called here: the lane may have been inside malloc.
void tell_overflow(const Lane& lane) {
  const Stack& stack = lane.fiber.stack();
  Dl_info module{};
  const bool known = kernel() != nullptr && ::dladdr(kernel(), &module) != 0;
  const auto offset = known ? static_cast<size_t>(static_cast<const char*>(kernel()) -
                                                  static_cast<const char*>(module.dli_fbase))
                            : 0;
  char text[512];
  const int length = std::snprintf(
      text, sizeof(text),
      "peal: a lane has used up its stack of %zu bytes: block %llu, thread %u of kernel %s+%#zx. "
      "Enlarge it before the launch (peal::simt::Limits::stack_bytes, set_limits()), or keep large "
      "arrays and deep recursion off the stack\n",
      stack.bytes, static_cast<unsigned long long>(lane.block->number(gridDim)), thread_rank(),
      known ? module.dli_fname : "?", offset);
  if (length > 0 && ::write(STDERR_FILENO, text, static_cast<size_t>(length)) < 0) return;
}

void on_fault(int, siginfo_t* info, void*) {
  const Lane* const lane = this_watch == nullptr ? nullptr : current_lane();
  if (lane != nullptr) {
    const auto at = reinterpret_cast<uintptr_t>(info->si_addr);
    const auto bottom = reinterpret_cast<uintptr_t>(lane->fiber.stack().bottom);
    const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
    if (at < bottom && bottom - at <= page) tell_overflow(*lane);
  }
  // The instruction faults again, and whoever was in charge before sees it.
  ::sigaction(SIGSEGV, &fault_before, nullptr);
}

void install_handlers() {
  struct sigaction tick {};
  tick.sa_sigaction = on_tick;
  tick.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK;
  ::sigaction(kTickSignal, &tick, &tick_before);
  if (sanitized()) return;  // the sanitizer tells of a stack that overflows
  struct sigaction fault {};
  fault.sa_sigaction = on_fault;
  fault.sa_flags = SA_SIGINFO | SA_ONSTACK;
  ::sigaction(SIGSEGV, &fault, &fault_before);
}

}  // namespace

Watch::Watch(unsigned busy_ms, const std::atomic<uint64_t>& slices, Bell& bell)
    : slices_(slices), bell_(bell) {
  static std::once_flag installed;
  std::call_once(installed, install_handlers);
  this_watch = this;
  if (!sanitized()) {
    signal_stack_ = std::make_unique_for_overwrite<std::byte[]>(kSignalStack);
    const stack_t stack{.ss_sp = signal_stack_.get(), .ss_flags = 0, .ss_size = kSignalStack};
    ::sigaltstack(&stack, nullptr);
  }
  if (busy_ms == 0) return;
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
  const timespec every{static_cast<time_t>(busy_ms / 1000),
                       static_cast<long>(busy_ms % 1000) * 1'000'000L};
  const itimerspec period{every, every};
  if (timed_) ::timer_settime(timer_, 0, &period, nullptr);
}

Watch::~Watch() {
  if (timed_) ::timer_delete(timer_);
  this_watch = nullptr;
  if (signal_stack_ != nullptr) {
    const stack_t none{.ss_sp = nullptr, .ss_flags = SS_DISABLE, .ss_size = 0};
    ::sigaltstack(&none, nullptr);
  }
}

void Watch::tick(uint64_t code) {
  const uint64_t now = slices_.load(std::memory_order_relaxed);
  const bool same = now == last_ && now != 0;
  last_ = now;
  const Lane* const lane = current_lane();
  if (!same || lane == nullptr || state_.load(std::memory_order_relaxed) != kNothing) return;
  found_ = {reinterpret_cast<uint64_t>(kernel()), code, lane->block->number(gridDim),
            thread_rank()};
  state_.store(kFound, std::memory_order_release);
  bell_.ring();
}

bool Watch::take(BusyLane* found) {
  int expected = kFound;
  if (!state_.compare_exchange_strong(expected, kTaken)) return false;
  *found = found_;
  return true;
}

namespace {

std::string span_of(unsigned ms) {
  return ms % 1000 == 0 ? std::to_string(ms / 1000) + " s" : std::to_string(ms) + " ms";
}

}  // namespace

void tell(const BusyLane& lane, unsigned busy_ms) {
  const std::string kernel = lane.kernel == 0 ? "" : function_at(lane.kernel);
  const std::string text =
      "peal: kernel " + (kernel.empty() ? "(unnamed)" : kernel) + ", block " +
      std::to_string(lane.block) + ", thread " + std::to_string(lane.thread) + ", has run for " +
      span_of(busy_ms) + " without a call of peal or a yield, and is at " +
      place_of_code(lane.code) +
      ". If it waits in a loop of its own, what it waits for may not run meanwhile: wait by "
      "wait_until(), or call test() in the loop (docs/debugging.md)\n";
  if (::write(STDERR_FILENO, text.data(), text.size()) < 0) return;
}

}  // namespace peal::simt
