// SPDX-License-Identifier: Apache-2.0
//
// What the lanes of a warp may do at once of one queue pair's requests, of which each lane has one:
// a run, from the first lane on.
#pragma once

#include <cstdint>

#include "softnic/gpu/batch.h"
#include "softnic/gpu/copy.cuh"

namespace peal::softnic::gpu {

inline constexpr uint64_t kChunk = 256 << 10;      // bytes moved before others get a turn
inline constexpr uint64_t kLong = 2 * kPartBytes;  // bytes of a request that warps share

/// Bit i speaks of lane i.
struct Run {
  uint32_t length;
  uint32_t strict;
  uint32_t writes;
  uint32_t large;
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

/// Cuts a run before a long request, or behind one that it begins with, as long ones are moved in
/// parts; and where it would move more than kChunk bytes. Never to nothing.
__device__ inline uint32_t bound(const Shot& shot, uint32_t run, uint32_t lane) {
  if (!__any_sync(kAll, lane < run && shot.bytes > kChunk / kLanes)) return run;
  const uint32_t longs = __ballot_sync(kAll, lane < run && shot.bytes > kLong);
  if ((longs & 1) != 0) return 1;
  if (longs != 0) run = lowest_bit(longs);
  uint64_t bytes = shot.bytes;
#pragma unroll
  for (uint32_t by = 1; by < kLanes; by *= 2) {
    const uint64_t other = __shfl_up_sync(kAll, bytes, by);
    if (lane >= by) bytes += other;
  }
  const uint32_t beyond = lowest_bit(__ballot_sync(kAll, bytes > kChunk));
  const uint32_t most = beyond == 0 ? 1 : beyond;
  return run < most ? run : most;
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
  run.reads = first == Shot::Kind::kRead;
  if (run.large != 0) run.length = bound(shot, run.length, lane);
  if (run.length > 1) run.length = before_clash(shot, run, lane);
  return run;
}

}  // namespace peal::softnic::gpu
