// SPDX-License-Identifier: Apache-2.0
//
// Every system call that host/storage makes on files, in one table. Tests put functions of their
// own in it: short reads, a full disk, a process that is killed at its n-th write.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <cstddef>

namespace peal::storage {

/// As Linux has them: -1 and errno on failure. Called from several threads at the same time.
struct SystemCalls {
  int (*open)(const char* path, int flags, mode_t mode);
  int (*close)(int fd);
  ssize_t (*pread)(int fd, void* to, size_t bytes, off_t offset);
  ssize_t (*pwrite)(int fd, const void* from, size_t bytes, off_t offset);
  int (*fstat)(int fd, struct stat* told);
  int (*stat)(const char* path, struct stat* told);
  int (*lstat)(const char* path, struct stat* told);
  int (*ftruncate)(int fd, off_t bytes);
  int (*fchmod)(int fd, mode_t mode);
  int (*fsync)(int fd);
  int (*flock)(int fd, int operation);
  int (*rename)(const char* from, const char* to);
  int (*unlink)(const char* path);
};

/// The operating system's own.
const SystemCalls& linux_calls();

}  // namespace peal::storage
