// SPDX-License-Identifier: Apache-2.0
//
// Memory of a GPU as a dma-buf: a file descriptor by which the kernel lets another device's driver
// attach to it. Made by whoever owns the memory (Gpu::export_dma_buf), taken by a NIC
// (nic::Registration).
#pragma once

#include <string>
#include <utility>

#include "base/fd.h"

namespace peal {

/// A dma-buf, or the reason why there is none. Owns the descriptor, which may be closed as soon as
/// the memory is registered.
class DmaBuf {
 public:
  explicit DmaBuf(int fd) : fd_(closed_by_exec(fd)) {}
  explicit DmaBuf(std::string why_not) : why_not_(std::move(why_not)) {}

  int fd() const { return fd_.get(); }  // -1: there is none
  /// "cuMemGetHandleForAddressRange(...): operation not supported".
  const std::string& why_not() const { return why_not_; }

 private:
  Fd fd_;
  std::string why_not_;
};

}  // namespace peal
