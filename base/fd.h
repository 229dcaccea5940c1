// SPDX-License-Identifier: Apache-2.0
//
// The owner of one file descriptor: closed exactly once, by whoever holds it last, and in children
// of fork() at once (base/forks.h); never one of 0 to 2. A program that was started without
// standard error, or has closed it, would print into what took its place: a heap's pages, a socket
// to another PE.
//
//   of this project     Fd moves what it takes over to 3 or above, whenever that is
//   of other libraries  find 0 to 2 taken: occupy_standard_descriptors() before they are loaded
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "base/forks.h"

namespace peal {

/// `fd`, or what it was moved to: never 0, 1 or 2. Negative, and errno tells, where no descriptor
/// is left for that; `fd` is closed then.
inline int above_standard(int fd) {
  if (fd < 0 || fd > STDERR_FILENO) return fd;
  const int moved = ::fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  const int error = errno;
  ::close(fd);
  errno = error;
  return moved;
}

class Fd {
 public:
  Fd() = default;
  /// Takes over `fd`, under another number where it is 0, 1 or 2. Negative: there is none.
  explicit Fd(int fd) : fd_(above_standard(fd)) {
    if (fd_ >= 0) Forks::of_process().opened(fd_);
  }
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)), maker_(other.maker_) {}
  Fd& operator=(Fd&& other) noexcept {
    Fd old(std::move(other));
    std::swap(fd_, old.fd_);
    std::swap(maker_, old.maker_);
    return *this;
  }
  ~Fd() {
    if (const int fd = release(); fd >= 0) ::close(fd);
  }

  /// Negative where there is none, and in a child of fork().
  int get() const { return maker_.here() ? fd_ : -1; }
  explicit operator bool() const { return get() >= 0; }

  /// Gives it up to the caller, who closes it.
  int release() {
    const int fd = get();
    fd_ = -1;
    if (fd >= 0) Forks::of_process().closed(fd);
    return fd;
  }

 private:
  int fd_ = -1;
  Maker maker_;
};

/// A descriptor that other code has opened: from now on closed by exec, as those are that this
/// project opens.
inline Fd closed_by_exec(int fd) {
  if (fd >= 0) ::fcntl(fd, F_SETFD, FD_CLOEXEC);
  return Fd(fd);
}

/// From now on reading and writing never wait. False, and errno tells.
inline bool set_non_blocking(int fd) {
  const int flags = ::fcntl(fd, F_GETFL);
  return flags >= 0 && ::fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0;
}

/// What such a descriptor says that has nothing, or no room, now.
inline bool would_block(int error) {
  return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
}

/// Opens /dev/null in the place of each of standard input, output and error that is closed: what
/// libraries open that know nothing of Fd then lies above. Throws std::system_error where there is
/// no /dev/null.
inline void occupy_standard_descriptors() {
  const auto closed = [](int fd) { return ::fcntl(fd, F_GETFD) < 0; };
  while (closed(STDIN_FILENO) || closed(STDOUT_FILENO) || closed(STDERR_FILENO)) {
    // Not closed by exec: as any other standard descriptor, it is for children too.
    const int lowest = ::open("/dev/null", O_RDWR);
    if (lowest < 0) {
      throw std::system_error(errno, std::generic_category(),
                              "open(/dev/null), for a closed standard input, output or error");
    }
    if (lowest > STDERR_FILENO) ::close(lowest);  // another thread was faster
  }
}

}  // namespace peal
