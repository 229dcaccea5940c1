// SPDX-License-Identifier: Apache-2.0
//
// Long copies that the warps of the NIC's kernel share: one warp has some kilobytes in flight,
// which over a link is a fraction of its rate.
//
//   owner    reserve() -> set() each -> show(): jobs; their bits in `open`
//   anybody  take() -> a part -> copy -> fence -> finish()
//   owner    is_done() -> end()
//
// The owner takes parts like anybody else, so a copy ends also where nobody helps, and nobody
// leaves with a part unfinished.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/base/order.h"
#include "device/base/target.h"

namespace peal::softnic::gpu {

inline constexpr uint64_t kLargestPart = 32 << 10;
inline constexpr uint64_t kSmallestPart = 8 << 10;
inline constexpr uint32_t kBoardWords = 4;
inline constexpr uint32_t kCopyJobs = kBoardWords * 64;  // at once
inline constexpr uint16_t kNoJob = kCopyJobs;
inline constexpr uint32_t kMoves = 8;  // jobs of one queue pair at once

/// Bytes that a warp copies at a time of so many: an eighth, as far as it is worth taking.
PEAL_HD constexpr uint64_t part_of(uint64_t bytes) {
  uint64_t part = kSmallestPart;
  while (part < kLargestPart && part * 8 < bytes) part *= 2;
  return part;
}

struct alignas(64) CopyJob {
  uint64_t ticket;  // number of parts << 32 | the next to be taken, or more
  std::byte* to;
  const std::byte* from;
  uint64_t bytes;
  uint64_t part;  // bytes of each but the last
  uint64_t done;  // parts
};

/// Some of a job's bytes.
struct CopyPart {
  std::byte* to;
  const std::byte* from;
  uint64_t bytes;
};

/// In memory of the GPU; all zero at first. Job 64 * w + b is bit b of word w.
class CopyBoard {
 public:
  /// Jobs of a word of which there may be parts to take. A hint: take() decides.
  PEAL_HD uint64_t open(uint32_t word) const {
    return peal::load_relaxed<Reach::kGpu>(&open_[word]);
  }

  /// Up to `want` jobs of a word, as its bits: of its lower half, so that others find one in the
  /// upper half, where one is taken if it is a queue pair's `first`.
  PEAL_HD uint64_t reserve(uint32_t word, uint32_t want, bool first) {
    uint64_t free = ~load_relaxed<Reach::kGpu>(&used_[word]);
    if ((free & kLowerJobs) != 0) {
      free &= kLowerJobs;
    } else if (first) {
      want = 1;
    } else {
      return 0;
    }
    uint64_t wanted = 0;
    for (; want > 0 && free != 0; --want) {
      wanted |= free & -free;
      free &= free - 1;
    }
    // Acquires what the jobs' last owners have seen of them.
    return wanted & ~fetch_or_acquire<Reach::kGpu>(&used_[word], wanted);
  }

  /// Makes a reserved job of the copy. What the source has to hold is visible to the caller.
  PEAL_HD void set(uint32_t at, std::byte* to, const std::byte* from, uint64_t bytes) {
    CopyJob& job = jobs_[at];
    job.to = to;
    job.from = from;
    job.bytes = bytes;
    job.part = part_of(bytes);
    peal::store_relaxed<Reach::kGpu>(&job.done, uint64_t{0});
    store_release<Reach::kGpu>(&job.ticket, (bytes + job.part - 1) / job.part << 32);
  }
  /// Shows jobs of a word that were set.
  PEAL_HD void show(uint32_t word, uint64_t jobs) { set_bits<Reach::kGpu>(&open_[word], jobs); }

  /// A part nobody has taken; false where there is none.
  PEAL_HD bool take(uint32_t at, CopyPart* part) {
    CopyJob& job = jobs_[at];
    // The job of whoever set the ticket: it is not over before this part is.
    const uint64_t ticket = fetch_add_acquire<Reach::kGpu>(&job.ticket, uint64_t{1});
    const auto number = static_cast<uint32_t>(ticket);
    const auto parts = static_cast<uint32_t>(ticket >> 32);
    if (number >= parts) return false;
    const uint64_t offset = number * job.part;
    const uint64_t left = job.bytes - offset;
    *part = {job.to + offset, job.from + offset, left < job.part ? left : job.part};
    // Ahead of finish(), so ahead of the bit of the job's next owner.
    if (number + 1 == parts) clear_bits<Reach::kGpu>(&open_[at / 64], uint64_t{1} << at % 64);
    return true;
  }

  /// A part that was taken is where it belongs, and the caller has fenced it.
  PEAL_HD void finish(uint32_t at) { fetch_add<Reach::kGpu>(&jobs_[at].done, uint64_t{1}); }

  /// True once all parts are where they belong, and visible to the caller. For the owner.
  PEAL_HD bool is_done(uint32_t at) const {
    const uint64_t parts = load_relaxed<Reach::kGpu>(&jobs_[at].ticket) >> 32;
    return load_acquire<Reach::kGpu>(&jobs_[at].done) == parts;
  }

  /// The job may be another's. For the owner, once it is done.
  PEAL_HD void end(uint32_t at) {
    const uint64_t bit = uint64_t{1} << at % 64;
    // Once more: who took the last part may have done so before the bit was set.
    clear_bits<Reach::kGpu>(&open_[at / 64], bit);
    clear_bits_release<Reach::kGpu>(&used_[at / 64], bit);
  }

 private:
  static constexpr uint64_t kLowerJobs = ~uint64_t{0} >> 32;

  alignas(128) uint64_t open_[kBoardWords];
  alignas(128) uint64_t used_[kBoardWords];
  CopyJob jobs_[kCopyJobs];
};

}  // namespace peal::softnic::gpu
