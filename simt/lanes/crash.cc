// SPDX-License-Identifier: Apache-2.0
//
// All of it runs in a handler of a signal, on a lane that may have been inside malloc: nothing here
// allocates or takes a lock of the C library. What reads the program's symbols (libbacktrace, the
// unwinder) maps memory of its own; should it crash or hang over damaged memory, a shorter line is
// written that was made before.
//
//   first thread: tell() -> hook -> the signal's own end      others: wait for that
#include "simt/lanes/crash.h"

#include <dlfcn.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>
#include <unwind.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string_view>

#include "simt/lanes/lane.h"
#include "simt/lanes/place.h"
#include "simt/lanes/sanitizer.h"
#include "simt/lanes/scheduler.h"
#include "simt/lanes/suspend.h"
#include "simt/lanes/symbol.h"

namespace peal::simt {
namespace {

constexpr std::array kCrashSignals = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
constexpr unsigned kLongestTale = 5;  // seconds
constexpr size_t kSignalStackBytes = size_t{96} << 10;
#if defined(__x86_64__)
constexpr bool kCallsByStack = true;  // a call leaves its return address there
#else
constexpr bool kCallsByStack = false;
#endif
constexpr uintptr_t kFarthestOverflow = uintptr_t{16} << 20;  // a large array skips guard pages

/// One line in the making.
class CrashLine {
 public:
  void clear() { length_ = 0; }
  const char* text() const { return bytes_.data(); }
  CrashLine& add(std::string_view text) {
    const size_t taken = std::min(text.size(), bytes_.size() - 2 - length_);
    std::memcpy(bytes_.data() + length_, text.data(), taken);
    length_ += taken;
    bytes_[length_] = '\0';
    return *this;
  }
  CrashLine& number(uint64_t value, int base = 10) {
    std::array<char, 24> digits;
    const auto end = std::to_chars(digits.begin(), digits.end(), value, base).ptr;
    return add({digits.data(), static_cast<size_t>(end - digits.data())});
  }
  CrashLine& address(uintptr_t value) { return add("0x").number(value, 16); }
  CrashLine& index(const Dim3& at) {
    return add("(").number(at.x).add(",").number(at.y).add(",").number(at.z).add(")");
  }
  /// Writes the line to stderr.
  void write() {
    bytes_[length_] = '\n';
    for (size_t at = 0; at <= length_;) {
      const ssize_t n = ::write(STDERR_FILENO, bytes_.data() + at, length_ + 1 - at);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) break;
      at += static_cast<size_t>(n);
    }
    bytes_[length_] = '\0';
  }

 private:
  std::array<char, 1500> bytes_;
  size_t length_ = 0;
};

// C keeps handlers for the process, so what they need is global.
struct sigaction fault_before;  // of SIGSEGV
constinit std::atomic<CrashHook> crash_hook{nullptr};
constinit std::atomic<pid_t> crash_process{0};  // whose the handlers are: not its children's
constinit std::atomic<pid_t> crash_teller{0};   // the first thread to crash
constinit std::atomic<bool> crash_told{false};
constinit std::atomic<int> told_signal{0};
CrashLine crash_line;
CrashLine crash_in_short;  // for when the whole line cannot be made

constexpr int kNoPe = -1;
constexpr int kSeveralPes = -2;
constinit std::atomic<int> pe_of_process{kNoPe};

// In the block that a thread is born with: what a library loaded later has for a thread is
// allocated at its first use, which in a handler would be too late.
[[gnu::tls_model("initial-exec")]] constinit thread_local bool runs_lanes = false;

uintptr_t stack_of(const void* context) {
  const auto& registers = static_cast<const ucontext_t*>(context)->uc_mcontext;
#if defined(__x86_64__)
  return static_cast<uintptr_t>(registers.gregs[REG_RSP]);
#elif defined(__aarch64__)
  return registers.sp;
#else
  static_cast<void>(registers);
  return 0;
#endif
}

bool overflowed(const Lane& lane, int signal, const siginfo_t& info, const void* context) {
  if (signal != SIGSEGV || info.si_code <= 0) return false;
  const auto bottom = reinterpret_cast<uintptr_t>(lane.fiber->stack().bottom);
  const auto at = reinterpret_cast<uintptr_t>(info.si_addr);
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const uintptr_t top = stack_of(context);
  return (at < bottom && bottom - at <= page) ||
         (top < bottom && bottom - top <= kFarthestOverflow);
}

/// What other processes send says nothing of the lane that it interrupts.
bool own_doing(int signal, const siginfo_t& info) {
  return info.si_code > 0 || (signal == SIGABRT && info.si_pid == ::getpid());
}

void add_who(CrashLine& line, const Lane& lane) {
  const int pe = pe_of_process;
  if (const Scheduler* const scheduler = scheduler_of_lane(); scheduler != nullptr) {
    line.add(scheduler->owner());
    if (lane.on_host) line.add(", the host");
  } else if (pe >= 0) {
    line.add("PE ").number(static_cast<uint64_t>(pe));
  } else {
    line.add("peal");
  }
  line.add(": ");
}

void add_module(CrashLine& line, uintptr_t code) {
  Dl_info module{};
  if (::dladdr(reinterpret_cast<void*>(code), &module) == 0) {
    line.address(code);
    return;
  }
  const char* const slash = std::strrchr(module.dli_fname, '/');
  line.add(slash == nullptr ? module.dli_fname : slash + 1).add("+");
  line.address(code - reinterpret_cast<uintptr_t>(module.dli_fbase));
}

void add_kernel(CrashLine& line, bool by_name) {
  const auto code = reinterpret_cast<uintptr_t>(kernel());
  line.add("kernel ");
  if (code == 0) {
    line.add("(unnamed)");
    return;
  }
  const char* const symbol = by_name ? symbol_at(code) : nullptr;
  if (symbol != nullptr) {
    line.add(last_name(symbol));
  } else {
    add_module(line, code);
  }
}

void add_what(CrashLine& line, int signal, const siginfo_t& info) {
  const auto at = reinterpret_cast<uintptr_t>(info.si_addr);
  switch (signal) {
    case SIGSEGV:
      line.add("segmentation fault at ");
      if (info.si_code == SI_KERNEL) {
        line.add("an address that no memory has");  // x86 does not tell which
      } else {
        line.add("address ").address(at);
      }
      break;
    case SIGBUS:
      line.add("bus error at address ").address(at);
      if (info.si_code != BUS_ADRERR) break;
      line.add(" (behind the end of a mapped file, or no room is left where that lies: /dev/shm)");
      break;
    case SIGFPE:
      line.add(info.si_code == FPE_INTDIV ? "integer division by zero" : "arithmetic error");
      break;
    case SIGILL:
      line.add("illegal instruction (a trap, or code for another CPU)");
      break;
    default:
      line.add("abort()");
  }
}

struct CrashFrames {
  uintptr_t from;  // the innermost that counts
  size_t count = 0;
  std::array<uintptr_t, 32> code{};
};

_Unwind_Reason_Code take_crash_frame(_Unwind_Context* context, void* to) {
  auto& frames = *static_cast<CrashFrames*>(to);
  int is_exact = 0;
  const auto code = static_cast<uintptr_t>(_Unwind_GetIPInfo(context, &is_exact));
  if (frames.count == 0 && code != frames.from) return _URC_NO_REASON;
  if (code == 0 || frames.count == frames.code.size()) return _URC_END_OF_STACK;
  // A return address is behind its call, which may be the last of its line.
  frames.code[frames.count++] = is_exact != 0 ? code : code - 1;
  return _URC_NO_REASON;
}

bool in_c_library(uintptr_t code) {
  Dl_info module{};
  Dl_info library{};
  return ::dladdr(reinterpret_cast<void*>(code), &module) != 0 &&
         ::dladdr(reinterpret_cast<void*>(&::abort), &library) != 0 &&
         module.dli_fbase == library.dli_fbase;
}

/// Who called what is no code: a null pointer to a function.
uintptr_t caller_of(const Lane& lane, const void* context) {
  const auto bottom = reinterpret_cast<uintptr_t>(lane.fiber->stack().bottom);
  const uintptr_t top = stack_of(context);
  const bool known = kCallsByStack && top >= bottom && top - bottom < lane.fiber->stack().bytes;
  return known ? *reinterpret_cast<const uintptr_t*>(top) : 0;
}

/// The program's innermost line, or the address itself.
void add_place(CrashLine& line, const Lane& lane, const void* context) {
  CrashFrames frames{.from = code_of(context)};
  _Unwind_Backtrace(take_crash_frame, &frames);
  if (frames.count == 0) {
    const uintptr_t caller = caller_of(lane, context);
    if (caller != 0) frames.code[frames.count++] = caller - 1;
  }
  for (size_t i = 0; i < frames.count; ++i) {
    if (in_c_library(frames.code[i])) continue;
    const CodeOfProgram found = code_of_program(frames.code[i]);
    if (found.file == nullptr) continue;
    line.add(", in ");
    if (found.function != nullptr) line.add(last_name(found.function)).add(" (");
    const char* const slash = std::strrchr(found.file, '/');
    line.add(slash == nullptr ? found.file : slash + 1).add(":");
    line.number(static_cast<uint64_t>(found.line));
    if (found.function != nullptr) line.add(")");
    return;
  }
  line.add(", at ");
  add_module(line, frames.from);
}

void tell_crash(const Lane& lane, int signal, const siginfo_t& info, const void* context) {
  const bool overflow = overflowed(lane, signal, info, context);
  for (CrashLine* const line : {&crash_in_short, &crash_line}) {
    const bool whole = line == &crash_line;
    line->clear();
    add_who(*line, lane);
    if (!lane.on_host) {
      add_kernel(*line, whole);
      line->add(", block ").index(blockIdx).add(", thread ").index(threadIdx).add(": ");
    }
    if (overflow) {
      line->add("stack overflow: a lane has used up its stack of ");
      line->number(lane.fiber->stack().bytes).add(" bytes");
    } else {
      add_what(*line, signal, info);
    }
    if (whole) add_place(*line, lane, context);
    if (!overflow) continue;
    line->add(
        ". Enlarge it before the launch (peal::simt::Limits::stack_bytes, set_limits()), or ");
    line->add("keep large arrays and deep recursion off the stack");
  }
  crash_line.write();
}

/// The end that the signal has by itself, or by the handler of before.
void end_by(int signal, const struct sigaction& before, bool sent) {
  ::sigaction(signal, &before, nullptr);
  // The instruction that faulted does so again behind the handler; what was sent is sent again.
  if (sent) ::syscall(SYS_tgkill, ::getpid(), ::syscall(SYS_gettid), signal);
}

/// The line cannot be made: the short one, and the end, by whichever thread hears of it.
void on_late(int) {
  crash_in_short.write();
  struct sigaction plain {};
  plain.sa_handler = SIG_DFL;
  ::sigaction(told_signal, &plain, nullptr);
  ::kill(::getpid(), told_signal);
}

/// While it lives, the process ends when this takes too long.
class CrashAlarm {
 public:
  CrashAlarm() {
    struct sigaction late {};
    late.sa_handler = on_late;
    ::sigaction(SIGALRM, &late, &before_);
    sigset_t alarms;
    ::sigemptyset(&alarms);
    ::sigaddset(&alarms, SIGALRM);
    ::pthread_sigmask(SIG_UNBLOCK, &alarms, nullptr);
    ::alarm(kLongestTale);
  }
  ~CrashAlarm() {
    ::alarm(0);
    ::sigaction(SIGALRM, &before_, nullptr);
  }
  CrashAlarm(const CrashAlarm&) = delete;
  CrashAlarm& operator=(const CrashAlarm&) = delete;

 private:
  struct sigaction before_ {};
};

/// Another thread tells of its crash: this one's end would cut that short.
void wait_for_teller() {
  for (unsigned ms = 0; !crash_told && ms < 1000 * kLongestTale; ++ms) {
    const timespec nap{0, 1'000'000};
    ::nanosleep(&nap, nullptr);
  }
}

void on_crash(int signal, siginfo_t* info, void* context) {
  const int error = errno;
  struct sigaction after {};
  after.sa_handler = SIG_DFL;
  if (signal == SIGSEGV) after = fault_before;
  const bool sent = info->si_code <= 0;
  const Lane* lane = runs_lanes && own_doing(signal, *info) ? current_lane() : nullptr;
  if (lane != nullptr && (lane->ended || !lane->started)) lane = nullptr;  // it has just ended
  const bool overflow = lane != nullptr && overflowed(*lane, signal, *info, context);
  // Who has a handler may go on from here.
  if (after.sa_handler != SIG_DFL && !overflow) return end_by(signal, after, sent);
  const auto self = static_cast<pid_t>(::syscall(SYS_gettid));
  pid_t teller = 0;
  if (crash_teller.compare_exchange_strong(teller, self)) {
    told_signal = signal;
    const CrashAlarm alarm;
    if (lane != nullptr) tell_crash(*lane, signal, *info, context);
    const CrashHook hook = crash_hook;
    if (hook != nullptr && crash_process == ::getpid()) {
      hook({signal, lane == nullptr ? nullptr : crash_line.text()});
    }
    crash_told = true;
  } else if (teller == self) {
    return on_late(SIGALRM);  // the teller itself has crashed
  } else {
    wait_for_teller();
  }
  end_by(signal, after, sent);
  errno = error;
}

void install_crash_handlers() {
  if (sanitized()) return;  // the sanitizer tells
  crash_process = ::getpid();
  struct sigaction crash {};
  crash.sa_sigaction = on_crash;
  crash.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  for (const int signal : kCrashSignals) {
    struct sigaction before {};
    ::sigaction(signal, nullptr, &before);
    if (signal == SIGSEGV) fault_before = before;
    if (signal == SIGSEGV || before.sa_handler == SIG_DFL) ::sigaction(signal, &crash, nullptr);
  }
}

}  // namespace

CrashHook set_crash_hook(CrashHook hook) { return crash_hook.exchange(hook); }

void set_pe_of_process(int pe) {
  int known = kNoPe;
  if (!pe_of_process.compare_exchange_strong(known, pe) && known != pe) pe_of_process = kSeveralPes;
}

void tell_of_crashes() {
  static std::once_flag installed;
  std::call_once(installed, install_crash_handlers);
  runs_lanes = true;
}

SignalStack::SignalStack() {
  stack_t now{};
  if (sanitized() || ::sigaltstack(nullptr, &now) != 0 || (now.ss_flags & SS_DISABLE) == 0) return;
  memory_ = std::make_unique_for_overwrite<std::byte[]>(kSignalStackBytes);
  const stack_t stack{.ss_sp = memory_.get(), .ss_flags = 0, .ss_size = kSignalStackBytes};
  ::sigaltstack(&stack, nullptr);
}

SignalStack::~SignalStack() {
  if (memory_ == nullptr) return;
  const stack_t none{.ss_sp = nullptr, .ss_flags = SS_DISABLE, .ss_size = 0};
  ::sigaltstack(&none, nullptr);
}

uintptr_t code_of(const void* context) {
  const auto& registers = static_cast<const ucontext_t*>(context)->uc_mcontext;
#if defined(__x86_64__)
  return static_cast<uintptr_t>(registers.gregs[REG_RIP]);
#elif defined(__aarch64__)
  return registers.pc;
#else
  static_cast<void>(registers);
  return 0;
#endif
}

}  // namespace peal::simt
