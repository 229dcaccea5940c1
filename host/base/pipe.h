// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "base/fd.h"
#include "host/base/error.h"

namespace peal {

/// Both ends are closed by exec. Throws kSystem when there are no descriptors left.
struct Pipe {
  Pipe() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) < 0) fail_errno(errno, "pipe2");
    read = Fd(ends[0]);
    write = Fd(ends[1]);
    if (!read || !write) fail_errno(errno, "fcntl(F_DUPFD_CLOEXEC)");
  }
  Fd read;
  Fd write;
};

}  // namespace peal
