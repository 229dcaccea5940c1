// SPDX-License-Identifier: Apache-2.0
//
// A kernel that crashes on a CPU ends its process. Before it does, a handler of the signal says on
// stderr which kernel, block and thread it was; then the signal does what it would have done: the
// exit code, a core and a debugger see the crash as it was.
//
//   PE 1: kernel ring, block (0,0,0), thread (3,0,0): segmentation fault at address 0x10, in
//   ring_step (ring.cc:17)
//
// Handlers are the process's. Where the program, or a sanitizer, has one it is left alone; only a
// stack that has overflowed is told of in front of it.
#pragma once

#include <signal.h>

#include <cstddef>
#include <cstdint>
#include <memory>

namespace peal::simt {

/// A crash of this process, by SIGSEGV, SIGBUS, SIGFPE, SIGILL or SIGABRT.
struct Crash {
  int signal;
  const char* text;  ///< the line that was written; null where no lane has crashed
};

/// Called in the handler, behind the line: for a crash of any thread, once kernels have run. It may
/// call what POSIX allows there, must return, and finds locks held by whoever has crashed.
using CrashHook = void (*)(const Crash& crash);

/// Replaces the process's hook, which is null at first; answers the one of before. A child of
/// fork() does not call it.
CrashHook set_crash_hook(CrashHook hook);

/// This process runs kernels of this PE, by which the line begins. Where it runs those of several,
/// and where nobody has said so, the line begins with "peal".
void set_pe_of_process(int pe);

/// From here on crashes of the calling thread's lanes are told.
void tell_of_crashes();

/// A stack for handlers of the calling thread, while it lives: a lane that has used up its own has
/// no room for one. Where the thread has such a stack already, and under a sanitizer: nothing.
class SignalStack {
 public:
  SignalStack();
  ~SignalStack();
  SignalStack(const SignalStack&) = delete;
  SignalStack& operator=(const SignalStack&) = delete;

 private:
  std::unique_ptr<std::byte[]> memory_;
};

/// Where the interrupted code was, by the third argument of a handler; 0 where that is not known.
uintptr_t code_of(const void* context);

}  // namespace peal::simt
