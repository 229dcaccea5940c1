// SPDX-License-Identifier: Apache-2.0
//
// What the lanes of a warp may do at once of one queue pair's requests, of which each lane has one:
// a run, from the first lane on.
#pragma once

#include <cstdint>

#include "softnic/gpu/batch.h"
#include "softnic/gpu/copy.cuh"
#include "softnic/gpu/copy_board.h"
#include "softnic/gpu/spread.cuh"

namespace peal::softnic::gpu {

/// A request of more bytes is shared by warps. So a run moves 256 KiB at most before others get a
/// turn.
inline constexpr uint64_t kLong = kSmallestPart;

/// Bit i speaks of lane i.
struct Run {
  uint32_t length;
  uint32_t strict;
  uint32_t writes;
  uint32_t large;
  uint32_t spread;  // of those: stored by the lanes that have their blocks (spread.cuh)
  bool reads;
};

/// By all lanes of a warp, rather than by one.
__device__ inline bool is_large(const Shot& shot) {
  return shot.from != nullptr && (shot.bytes > kSmallBytes || shot.inlined_far());
}

/// The run as far as no request writes what another of its segment writes.
__device__ inline uint32_t before_clash(const Shot& shot, const Run& run, uint32_t lane) {
  const bool compares = lane != 0 && lane < run.length && (run.strict >> lane & 1) == 0 &&
                        (run.strict >> (lane - 1) & 1) == 0;
  const auto end = reinterpret_cast<unsigned long long>(shot.to + shot.bytes);
  const auto previous_end = __shfl_up_sync(kAll, end, 1);
  const auto to = reinterpret_cast<unsigned long long>(shot.to);
  // The usual case: each begins where the one before it has ended, or later.
  if (!__any_sync(kAll, compares && to < previous_end)) return run.length;
  const uint32_t before = run.strict & ((1u << lane) - 1);
  const uint32_t segment =
      before == 0 ? 0 : 32 - static_cast<uint32_t>(__clz(static_cast<int>(before)));
  bool clashes = false;
  for (uint32_t earlier = 0; earlier + 1 < run.length; ++earlier) {
    Shot other;
    other.to = broadcast(shot.to, earlier);
    other.bytes = __shfl_sync(kAll, shot.bytes, static_cast<int>(earlier));
    clashes = clashes || (lane > earlier && earlier >= segment && clash(other, shot));
  }
  return run_length(bits_below(run.length), __ballot_sync(kAll, clashes && !shot.strict));
}

/// Bytes of the aligned word that ends `bytes` > 0 at `to`: the last to appear of a strict WRITE.
__device__ inline uint32_t last_word(const std::byte* to, uint32_t bytes) {
  uint32_t word = 8;
  while (word > bytes || !aligned(to + bytes, word)) word /= 2;
  return word;
}

/// A request that warps share.
__device__ inline bool is_long(const Shot& shot) {
  const bool moves = shot.kind == Shot::Kind::kWrite || shot.kind == Shot::Kind::kRead;
  return moves && shot.from != nullptr && shot.bytes > kLong;
}

/// The long requests that may be under way, at once with all that is ahead of them: WRITEs and
/// READs into memory with relaxed ordering, where either of two may be the last; no READ beside a
/// WRITE. Whatever else is long has to be the first. Never one without all long ones ahead of it.
__device__ inline uint32_t movable(const Shot& shot, uint32_t lane) {
  const bool read = shot.kind == Shot::Kind::kRead;
  const uint32_t plain = run_length(__ballot_sync(kAll, shot.kind != Shot::Kind::kNone), 0);
  const uint32_t ahead = bits_below(lane);
  const uint32_t reads = __ballot_sync(kAll, read) & ahead;
  const uint32_t others = __ballot_sync(kAll, !read && shot.kind != Shot::Kind::kNop) & ahead;
  const bool relaxed = is_long(shot) && !shot.fenced &&
                       (read ? (shot.home->access & kRelaxedOrdering) != 0 : !shot.strict);
  const bool may = lane == 0 || (relaxed && (read ? others : reads) == 0);
  const uint32_t longs = __ballot_sync(kAll, is_long(shot)) & bits_below(plain);
  const uint32_t stopped = longs & ~__ballot_sync(kAll, may);
  return longs & bits_below(lowest_bit(stopped));
}

/// What is left to do of a request that is where it belongs: of a strict WRITE its last word.
__device__ inline Shot left_of(const Shot& shot) {
  Shot left;
  left.kind = Shot::Kind::kNop;
  if (!shot.strict) return left;
  left = shot;
  left.bytes = last_word(shot.to, shot.bytes);
  left.to += shot.bytes - left.bytes;
  left.from += shot.bytes - left.bytes;
  return left;
}

__device__ inline Run choose_run(const Shot& shot, uint32_t lane) {
  const auto first =
      static_cast<Shot::Kind>(__shfl_sync(kAll, static_cast<uint32_t>(shot.kind), 0));
  const bool fits = shot.kind != Shot::Kind::kNone && joins(first, shot.kind);
  Run run;
  run.length = run_length(__ballot_sync(kAll, fits), 0);
  run.strict = __ballot_sync(kAll, shot.strict);
  run.writes = __ballot_sync(kAll, shot.kind == Shot::Kind::kWrite);
  run.large = __ballot_sync(kAll, is_large(shot));
  run.spread = __ballot_sync(kAll, may_spread(shot));
  run.reads = first == Shot::Kind::kRead;
  if (run.length > 1) run.length = before_clash(shot, run, lane);
  return run;
}

}  // namespace peal::softnic::gpu
