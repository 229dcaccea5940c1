// SPDX-License-Identifier: Apache-2.0
//
// Long copies that the warps of the NIC's kernel share: one warp has some kilobytes in flight,
// which over a link is a fraction of its rate.
//
//   owner    begin() -> a job: ticket, to, from, bytes; its bit in `open`
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

inline constexpr uint64_t kPartBytes = 32 << 10;
inline constexpr uint32_t kCopyJobs = 64;  // at once; bits of a word
inline constexpr uint32_t kNoJob = kCopyJobs;

struct alignas(64) CopyJob {
  uint64_t ticket;  // number of parts << 32 | the next to be taken, or more
  std::byte* to;
  const std::byte* from;
  uint64_t done;  // parts
};

/// Bytes [offset, offset + kPartBytes) of a job's.
struct CopyPart {
  std::byte* to;
  const std::byte* from;
};

/// In memory of the GPU; all zero at first.
class CopyBoard {
 public:
  /// Jobs of which there may be parts to take. A hint: take() decides.
  PEAL_HD uint64_t open() const { return peal::load_relaxed<Reach::kGpu>(&open_); }

  /// A job of `parts` parts, or kNoJob where all are in use. What the source has to hold is visible
  /// to the caller.
  PEAL_HD uint32_t begin(std::byte* to, const std::byte* from, uint32_t parts) {
    const uint64_t used = load_relaxed<Reach::kGpu>(&used_);
    if (~used == 0) return kNoJob;
    uint32_t at = 0;
    while ((used >> at & 1) != 0) ++at;
    const uint64_t bit = uint64_t{1} << at;
    // Acquires what the job's last owner has seen of it.
    if ((fetch_or_acquire<Reach::kGpu>(&used_, bit) & bit) != 0) return kNoJob;
    CopyJob& job = jobs_[at];
    job.to = to;
    job.from = from;
    peal::store_relaxed<Reach::kGpu>(&job.done, uint64_t{0});
    store_release<Reach::kGpu>(&job.ticket, uint64_t{parts} << 32);
    set_bits<Reach::kGpu>(&open_, bit);
    return at;
  }

  /// A part nobody has taken; false where there is none.
  PEAL_HD bool take(uint32_t at, CopyPart* part) {
    CopyJob& job = jobs_[at];
    // The job of whoever set the ticket: it is not over before this part is.
    const uint64_t ticket = fetch_add_acquire<Reach::kGpu>(&job.ticket, uint64_t{1});
    const auto number = static_cast<uint32_t>(ticket);
    const auto parts = static_cast<uint32_t>(ticket >> 32);
    if (number >= parts) return false;
    *part = {job.to + number * kPartBytes, job.from + number * kPartBytes};
    // Ahead of finish(), so ahead of the bit of the job's next owner.
    if (number + 1 == parts) clear_bits<Reach::kGpu>(&open_, uint64_t{1} << at);
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
    // Once more: who took the last part may have done so before the bit was set.
    clear_bits<Reach::kGpu>(&open_, uint64_t{1} << at);
    clear_bits_release<Reach::kGpu>(&used_, uint64_t{1} << at);
  }

 private:
  alignas(128) uint64_t open_;
  alignas(128) uint64_t used_;
  CopyJob jobs_[kCopyJobs];
};

}  // namespace peal::softnic::gpu
