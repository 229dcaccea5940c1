// SPDX-License-Identifier: Apache-2.0
//
// The memory of one send queue, as kernels, the NIC and the host see it, whatever the NIC is. Plain
// data: host/transport/queues.cc fills it in, device/nic/{send_queue,hand_over,completion,mark}.h
// run it.
//
//   line 0     fixed at set-up, read by all; begins with what the NIC's model keeps of a queue
//   line 1     moved by producers and pollers
//   line 2     the first error, read by the host while kernels still spin; where waits are noted
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/base/order.h"
#include "device/base/target.h"
#include "device/shared/nic_key.h"
#include "device/shared/post_times.h"
#include "device/shared/wait_record.h"
#include "device/status.h"

namespace peal {

/// Blocks of a ring: a warp of two-block requests with signals must fit at once.
inline constexpr uint32_t kMinQueueDepth = 128;
inline constexpr uint32_t kLandingCells = 128;
/// What lanes move themselves to and from memory that no NIC knows: what the cells hold at once.
inline constexpr uint64_t kAnywhereBytes = kLandingCells * sizeof(uint64_t);

/// Where the NIC drops the result of a fetching operation. `lap` counts the cell's users, so that
/// nobody's result is overwritten before it was read.
struct LandingCell {
  uint64_t value;
  uint64_t lap;
};

/// A queue that is not connected is a full one: its `completed` is this far behind `reserved`,
/// which it never is otherwise. The host moves it up, as the last thing, when the queue has a
/// connection.
inline constexpr uint64_t kUnconnected = uint64_t{1} << 32;

/// Flags of `reserved`, which counts in the bits below. With either the queue looks full: mark.h.
inline constexpr uint64_t kUnmarked = uint64_t{1} << 63;
inline constexpr uint64_t kUnmarking = uint64_t{1} << 62;
inline constexpr uint64_t kReservedCount = kUnmarking - 1;

/// `posted`: the count of blocks that are published, of how many the last request is, less one, and
/// two flags: somebody has taken the word, to publish and to ring; somebody left work for who does.
/// device/nic/hand_over.h.
inline constexpr uint64_t kRinging = uint64_t{1} << 62;
inline constexpr uint64_t kWanted = uint64_t{1} << 63;
inline constexpr uint64_t kPostedFlags = kRinging | kWanted;
inline constexpr uint32_t kPostedLastShift = 56;
inline constexpr uint32_t kMostBlocks = 32;  // of a request
inline constexpr uint64_t kPostedCount = (uint64_t{1} << kPostedLastShift) - 1;

/// `end` is within kPostedCount: at a thousand million blocks a second for two years.
PEAL_HD constexpr uint64_t posted_word(uint64_t end, uint32_t last_blocks) {
  return end | uint64_t{last_blocks - 1} << kPostedLastShift;
}
PEAL_HD constexpr uint64_t posted_end(uint64_t posted) { return posted & kPostedCount; }
/// The first block of the last published request.
PEAL_HD constexpr uint64_t posted_last(uint64_t posted) {
  return posted_end(posted) - (posted >> kPostedLastShift & (kMostBlocks - 1)) - 1;
}
/// True of a queue that is not connected. `completed` may be ahead of what is published: who rings
/// says so afterwards.
PEAL_HD constexpr bool is_unconnected(uint64_t posted, uint64_t completed) {
  return static_cast<int64_t>(posted_end(posted) - completed) >= static_cast<int64_t>(kUnconnected);
}
/// True while something that is published is not complete. A queue that is not connected has
/// nothing published.
PEAL_HD constexpr bool is_under_way(uint64_t posted, uint64_t completed) {
  return posted_last(posted) - completed < kUnconnected - 1;
}

/// Where the mark of the queue with number `row` to `pe` is, among a context's marks: one bit a
/// queue, in order, but that rows which blocks own begin at words of their own.
PEAL_HD constexpr uint32_t mark_index(uint32_t row, uint32_t pe, uint32_t n_pes, bool owned) {
  return (owned ? row * ((n_pes + 63) / 64 * 64) : row * n_pes) + pe;
}
/// 64-bit words of marks of a context.
PEAL_HD constexpr uint32_t mark_words(uint32_t rows, uint32_t n_pes) {
  return rows * ((n_pes + 63) / 64);
}

/// The first error of a queue. `status` is written last.
struct QueueError {
  uint32_t status;     // peal::Status
  uint32_t claimed;    // the observer that sets it writes the record
  uint64_t wqe_index;  // block index of the failed request
  uint64_t time_ns;    // device clock
  uint8_t syndrome;  // as the NIC says it; may be that of a flush, which has overwritten the first
  uint8_t vendor_syndrome;
  uint8_t opcode;  // of the failed request, as the NIC numbers them
  uint8_t reserved;
};

/// The reach of the fences by which a kernel hands work to the NIC. kGpu where the ring, the record
/// and the heap are in this GPU's memory and the NIC reads them there; a source elsewhere
/// (Window::off_gpu) is fenced by the lane that posts it.
enum class NicFence : uint32_t { kSystem, kGpu };

/// M is the NIC's model (device/nic/nic.h), and M::WorkQueue what it needs to write requests, to
/// ring and to look at completions.
template <class M>
struct alignas(128) BasicSendQueue {
  using Model = M;

  // Fixed.
  typename M::WorkQueue nic;
  uint32_t mask;             // of the ring: depth - 1
  NicFence fence;            // beside what a post reads anyway
  LandingCell* landing;      // kLandingCells, then one sink nobody reads
  const uint32_t* stop;      // the context's stop word: a Status that ends every wait, or 0
  uint64_t landing_address;  // of landing[0], as its registration knows it
  NicKey landing_key;
  uint32_t peer;
  uint64_t timeout_ns;  // of waits inside the queue; 0 = none
  uint32_t* alarm;      // the host's word that says: look for an error here; null: nobody looks
  uint32_t* request;    // the host's word that says: connect the queues to this peer
  uint32_t rail;        // by which NIC: see kMaxRails
  uint32_t to_cells;    // 1: the values of masked atomics come to landing cells alone, for a CPU
                        // thread carries them out
  uint64_t* marks;      // the word of its mark; null: no quiet goes by marks
  uint64_t mark_bit;    // the mark

  // Moving. Counts are of blocks of the ring.
  alignas(128) uint64_t reserved;
  uint64_t posted;  // see kRinging
  uint64_t rung;
  uint64_t completed;  // 1 + first block of the last completed request
  uint64_t landing_ticket;
  uint64_t settled;  // blocks up to and with the last READ of detail/drain.h
  uint64_t looked;   // what was published when quiet looked last and found it complete

  alignas(128) QueueError error;
  WaitTable* waits;  // of the context; null: nobody asks
  uint32_t* ready;   // a word for each block of the ring: device/nic/hand_over.h
  PostTimes* times;  // of the context; null: nobody asks

  /// A CPU thread reads the requests and posts them anew (proxy).
  PEAL_HD bool by_cpu() const { return to_cells != 0; }
  PEAL_HD uint64_t depth() const { return uint64_t{mask} + 1; }
};

/// The queue's own status, kOk until its first error.
template <Reach R, class M>
PEAL_HD Status queue_status(const BasicSendQueue<M>& q) {
  return static_cast<Status>(load_acquire<R>(&q.error.status));
}

/// What ends a wait on this queue early: its own error, or the context's stop word.
template <Reach R, class M>
PEAL_HD Status stop_status(const BasicSendQueue<M>& q) {
  const Status own = queue_status<R>(q);
  if (own != Status::kOk) return own;
  return static_cast<Status>(load_relaxed<Reach::kSystem>(q.stop));
}

}  // namespace peal
