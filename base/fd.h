// SPDX-License-Identifier: Apache-2.0
//
// The owner of one file descriptor: closed exactly once, by whoever holds it last.
#pragma once

#include <unistd.h>

#include <utility>

namespace peal {

class Fd {
 public:
  Fd() = default;
  /// Takes over `fd`; negative: there is none.
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    Fd old(std::exchange(fd_, std::exchange(other.fd_, -1)));
    return *this;
  }
  ~Fd() {
    if (fd_ >= 0) ::close(fd_);
  }

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

}  // namespace peal
