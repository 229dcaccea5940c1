// SPDX-License-Identifier: Apache-2.0
//
// Tells a PE that its process ends though its Runtime has not: main() returns or exit() is called,
// quick_exit(), or an exception that nobody catches. What kills the process without running any of
// its code (SIGKILL, _exit()) the others learn from the operating system.
#pragma once

#include <functional>

#include "base/forks.h"
#include "host/job/departure.h"
#include "host/job/live_group.h"

namespace peal {

/// Calls `leave` at most once, from the thread that ends the process, while this object lives. In a
/// child of fork() never.
class ProcessEnd {
 public:
  using Leave = std::function<void(const Departure&)>;

  explicit ProcessEnd(Leave leave);
  /// Waits for a call under way.
  ~ProcessEnd();
  ProcessEnd(const ProcessEnd&) = delete;
  ProcessEnd& operator=(const ProcessEnd&) = delete;

  void tell(const Departure& how);

 private:
  Leave leave_;
  const Maker maker_;
};

/// While it lives, the other PEs of `group` hear of a crash of this process by say_crash().
class CrashNotice {
 public:
  /// Where a process has more PEs than a crash has time for, those beyond are noticed by their end.
  explicit CrashNotice(const LiveGroup& group);
  ~CrashNotice();
  CrashNotice(const CrashNotice&) = delete;
  CrashNotice& operator=(const CrashNotice&) = delete;

 private:
  const LiveGroup* group_;
};

/// For a handler of the signal, which may hold any lock: takes none. `text` may be null.
void say_crash(int signal, const char* text) noexcept;

/// Ends the process by exit(0), as the end of its last thread does, where main() has ended by
/// pthread_exit() and no thread is left but those of this library, whose names begin with "peal-".
/// For a thread that looks some times a second; costs nothing while main() runs.
void exit_after_pthread_exit();

}  // namespace peal
