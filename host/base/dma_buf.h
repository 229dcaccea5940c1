// SPDX-License-Identifier: Apache-2.0
//
// Memory of a GPU as a dma-buf: a file descriptor by which the kernel lets another device's driver
// attach to it. Made by whoever owns the memory (Gpu::lend), taken by a NIC (nic::Registration).
#pragma once

#include <unistd.h>

#include <string>
#include <utility>

namespace peal {

/// A dma-buf, or the reason why there is none. Owns the descriptor, which may be closed as soon as
/// the memory is registered.
class DmaBuf {
 public:
  explicit DmaBuf(int fd) : fd_(fd) {}
  explicit DmaBuf(std::string why_not) : why_not_(std::move(why_not)) {}
  ~DmaBuf() {
    if (fd_ >= 0) ::close(fd_);
  }
  DmaBuf(DmaBuf&& other) noexcept
      : fd_(std::exchange(other.fd_, -1)), why_not_(std::move(other.why_not_)) {}
  DmaBuf& operator=(DmaBuf&&) = delete;

  int fd() const { return fd_; }  // -1: there is none
  /// "cuMemGetHandleForAddressRange(...): operation not supported".
  const std::string& why_not() const { return why_not_; }

 private:
  int fd_ = -1;
  std::string why_not_;
};

}  // namespace peal
