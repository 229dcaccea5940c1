// SPDX-License-Identifier: Apache-2.0
//
// How the memory of one queue is cut up; it lies in a queue region and in a memory region as a
// whole.
//
//   [ ring: depth x 64 | completion | doorbell records | device state | landing cells | spare |
//     ready: depth x 4 ]
//
// What lies between the ring and `ready` fits in 4 KiB.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace peal::nic {

/// Byte offsets within the memory of a queue of `depth` work queue blocks. Each part begins on a
/// 64-byte line of its own, so that NIC and GPU do not share one.
struct QueueMemoryLayout {
  static constexpr size_t kLine = 64;
  static constexpr size_t kBlockBytes = 64;
  static constexpr size_t kStateBytes = 1024;
  static constexpr size_t kLandingBytes = 2560;
  static constexpr size_t kOverhead = 4096;

  uint32_t depth;  // blocks: a power of two, at least 16

  constexpr size_t send_queue() const { return 0; }
  constexpr size_t cqe() const { return size_t{depth} * kBlockBytes; }
  constexpr size_t doorbell() const { return cqe() + kLine; }
  constexpr size_t cq_doorbell() const { return doorbell() + kLine / 2; }  // never written
  constexpr size_t state() const { return doorbell() + kLine; }            // device-visible state
  constexpr size_t landing() const { return state() + kStateBytes; }       // results of fetches
  constexpr size_t ready() const { return cqe() + kOverhead; }             // device/nic/hand_over.h
  constexpr size_t ready_bytes() const { return size_t{depth} * sizeof(uint32_t); }
  /// A multiple of 1 KiB, for a NIC's sake.
  constexpr size_t bytes() const { return ready() + (ready_bytes() + 1023) / 1024 * 1024; }

  /// What the completion is before the first one: all ones. Without it the first look at it reads
  /// garbage: zero would be a first completion's counter.
  static constexpr std::array<std::byte, kLine> no_completion() {
    std::array<std::byte, kLine> none;
    none.fill(std::byte{0xff});
    return none;
  }

  /// Makes host memory at `base` ready for creating the queue: all zero but for the completion.
  void prepare(std::byte* base) const {
    const auto none = no_completion();
    std::memset(base, 0, bytes());
    std::memcpy(base + cqe(), none.data(), none.size());
  }
};

static_assert(QueueMemoryLayout{16}.landing() + QueueMemoryLayout::kLandingBytes <=
              QueueMemoryLayout{16}.ready());
// A NIC finds a queue at multiples of a 64th of a host's page (registration.h): 64 KiB at most.
static_assert(QueueMemoryLayout{16}.cqe() % 1024 == 0 && QueueMemoryLayout{16}.bytes() % 1024 == 0);
static_assert(QueueMemoryLayout{16}.landing() % QueueMemoryLayout::kLine == 0);

}  // namespace peal::nic
