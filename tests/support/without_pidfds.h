// SPDX-License-Identifier: Apache-2.0
//
// A kernel that refuses pidfds, as filters of containers do that are older than they are.
#pragma once

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstddef>
#include <thread>

namespace peal {

/// From now on pidfd_open() of this thread, and of threads and processes it starts, fails with
/// `error`. False where this process may not have filters.
inline bool refuse_pidfds(int error) {
  sock_filter steps[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_pidfd_open, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<unsigned>(error)),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter{.len = sizeof steps / sizeof steps[0], .filter = steps};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0) == 0;
}

/// Whether it may; tried by a thread, whose filter ends with it.
inline bool may_refuse_pidfds() {
  bool may = false;
  std::thread([&] { may = refuse_pidfds(ENOSYS); }).join();
  return may;
}

}  // namespace peal
