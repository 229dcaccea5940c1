// SPDX-License-Identifier: Apache-2.0
//
// How the memory of one queue is cut up; it lies in a umem and in a memory region as a whole.
//
//   [ send queue: depth x 64 | CQE | doorbell records | device state | landing cells | spare ]
//
// Everything beside the send queue fits in 4 KiB.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "device/mlx5/layout.h"

namespace peal::nic {

/// Byte offsets within the memory of a queue of `depth` work queue blocks. Each part begins on a
/// 64-byte line of its own, so that NIC and GPU do not share one.
struct QueueMemoryLayout {
  static constexpr size_t kLine = 64;
  static constexpr size_t kStateBytes = 1024;
  static constexpr size_t kLandingBytes = 2560;
  static constexpr size_t kOverhead = 4096;
  static constexpr uint32_t kMaxDepth = 16384;  // half the 16-bit index range stays unambiguous

  uint32_t depth;  // power of two, 16..kMaxDepth

  constexpr size_t send_queue() const { return 0; }
  constexpr size_t cqe() const { return size_t{depth} * mlx5::kWqebbBytes; }
  constexpr size_t doorbell() const { return cqe() + sizeof(mlx5::Cqe); }
  constexpr size_t cq_doorbell() const { return doorbell() + kLine / 2; }  // never written
  constexpr size_t state() const { return doorbell() + kLine; }            // device-visible state
  constexpr size_t landing() const { return state() + kStateBytes; }       // results of fetches
  constexpr size_t bytes() const { return cqe() + kOverhead; }

  /// What the CQE is before the first completion: all ones, opcode invalid, counter 0xffff. Without
  /// it the first poll reads garbage: zero would be a first completion's counter.
  static mlx5::Cqe no_completion() {
    mlx5::Cqe none;
    std::memset(static_cast<void*>(&none), 0xff, sizeof(none));
    return none;
  }

  /// Makes host memory at `base` ready for creating the queue: all zero but for the CQE.
  void prepare(std::byte* base) const {
    const mlx5::Cqe none = no_completion();
    std::memset(base, 0, bytes());
    std::memcpy(base + cqe(), &none, sizeof(none));
  }
};

static_assert(QueueMemoryLayout{16}.landing() + QueueMemoryLayout::kLandingBytes <=
              QueueMemoryLayout{16}.bytes());
// A NIC finds a queue at multiples of a 64th of a host's page (registration.h): 64 KiB at most.
static_assert(QueueMemoryLayout{16}.cqe() % 1024 == 0 && QueueMemoryLayout{16}.bytes() % 1024 == 0);
static_assert(QueueMemoryLayout{16}.landing() % QueueMemoryLayout::kLine == 0);

}  // namespace peal::nic
