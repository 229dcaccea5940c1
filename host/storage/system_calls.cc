// SPDX-License-Identifier: Apache-2.0
#include "host/storage/system_calls.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cstdio>

#include "base/fd.h"

namespace peal::storage {

const SystemCalls& linux_calls() {
  static constexpr SystemCalls kCalls{
      .open = [](const char* path, int flags,
                 mode_t mode) { return above_standard(::open(path, flags, mode)); },
      .close = ::close,
      .pread = ::pread,
      .pwrite = ::pwrite,
      .fstat = ::fstat,
      .stat = ::stat,
      .lstat = ::lstat,
      .ftruncate = ::ftruncate,
      .fchmod = ::fchmod,
      .fsync = ::fsync,
      .flock = ::flock,
      .rename = ::rename,
      .unlink = ::unlink,
  };
  return kCalls;
}

}  // namespace peal::storage
