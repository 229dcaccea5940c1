// SPDX-License-Identifier: Apache-2.0
//
// The page of a NIC's registers that its queues are rung by: an mlx5 calls it UAR. The model's
// (model_library.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "host/nic/device.h"

namespace peal::nic {

/// Many queues may share one; a queue is only rung through the page it was created with.
class RegisterPage {
 public:
  static constexpr size_t kBytes = 4096;  // of the page, also where the host's are larger

  /// A private uncached page when the library has such, else the shared uncached one, else a
  /// write-combining one. Throws kSystem.
  explicit RegisterPage(const Device& device);

  uint32_t number() const { return number_; }  // by which the NIC knows it
  /// The 8-byte register to store a doorbell into.
  void* doorbell() const { return doorbell_; }
  void* base() const { return base_; }
  const char* kind() const { return kind_; }  // "dedicated", "uncached", "write-combining"
  /// A CPU's stores to it wait in the CPU until they are flushed.
  bool write_combining() const { return write_combining_; }

 private:
  ModelObject page_;
  uint32_t number_ = 0;
  void* doorbell_ = nullptr;
  void* base_ = nullptr;
  const char* kind_ = "";
  bool write_combining_ = false;
};

}  // namespace peal::nic
