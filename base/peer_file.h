// SPDX-License-Identifier: Apache-2.0
//
// A file that another process of this user has open, opened here through /proc: its owner does
// nothing for it and need not even be running.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdint>
#include <string>

#include "base/fd.h"

namespace peal {

/// Which file a process means: its descriptor, and what it is so that no other is taken for it.
struct PeerFile {
  int64_t pid;
  int64_t fd;
  uint64_t device;
  uint64_t inode;
};

/// Opened with `flags`. None, and errno tells: ESTALE where it is another file by now.
inline Fd open_peer_file(const PeerFile& file, int flags) {
  const std::string path = "/proc/" + std::to_string(file.pid) + "/fd/" + std::to_string(file.fd);
  Fd opened(::open(path.c_str(), flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat found {};
  if (!opened || ::fstat(opened.get(), &found) != 0) return {};
  if (found.st_dev == file.device && found.st_ino == file.inode) return opened;
  opened = Fd();
  errno = ESTALE;
  return opened;
}

}  // namespace peal
