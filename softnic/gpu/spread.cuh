// SPDX-License-Identifier: Apache-2.0
//
// Inline bytes of a request of several blocks, stored out of the registers of the lanes that have
// fetched its blocks, one each: no lane loads them again.
//
//   lane head + k has words 16 k .. 16 k + 15 of the request; its data begins at word kInlineWord,
//   which is odd, so that pairs of data words are words 1 and 2, 3 and 4, .. 15 and the next lane's
//   0
#pragma once

#include <cstdint>

#include "device/base/order.h"
#include "softnic/gpu/batch.h"
#include "softnic/gpu/copy.cuh"

namespace peal::softnic::gpu {

inline constexpr uint32_t kBlockWords = mlx5::kWqebbBytes / 4;

/// Whole words that begin at a multiple of 8. Others are copied from the queue.
__device__ inline bool may_spread(const Shot& shot) {
  return shot.inlined_far() && aligned(shot.to, 8) && shot.bytes % 4 == 0;
}

/// What of a request's data the lane stores.
struct InlinePart {
  std::byte* to;   // where the data begins
  uint32_t bytes;  // of all lanes
  uint32_t block;  // which of its blocks the lane has
  bool mine;       // the lane has one
};

/// By all lanes. Bit i of `heads`: the request that begins at lane i is stored so.
__device__ inline InlinePart spread_of(const Shot& shot, uint32_t heads, uint32_t lane) {
  const uint32_t before = heads & bits_below(lane + 1);
  const uint32_t head =
      before == 0 ? 0 : 31 - static_cast<uint32_t>(__clz(static_cast<int>(before)));
  InlinePart spread;
  spread.to = broadcast(shot.to, head);
  spread.bytes = __shfl_sync(kAll, shot.bytes, static_cast<int>(head));
  const uint32_t blocks = __shfl_sync(kAll, shot.blocks(), static_cast<int>(head));
  spread.block = lane - head;
  spread.mine = before != 0 && spread.block < blocks;
  return spread;
}

/// Which of the words: all in any order; or all but the last pair, and then that one, behind what
/// the lanes had stored when they met.
enum class Words { kAll, kAllButLast, kLast };

/// Stores the lane's pairs of words.
template <Words kWhich>
__device__ inline void store_spread(const InlinePart& spread, const FetchedBlock& block,
                                    uint32_t next_word) {
  if (!spread.mine) return;
#pragma unroll
  for (uint32_t word = 1; word < kBlockWords; word += 2) {
    if (spread.block == 0 && word < kInlineWord) continue;
    const uint32_t at = 4 * (spread.block * kBlockWords + word - kInlineWord);
    if (at >= spread.bytes) continue;
    if (kWhich != Words::kAll && (at + 8 >= spread.bytes) != (kWhich == Words::kLast)) continue;
    const uint32_t low = block.word[word];
    const uint32_t high = word + 1 < kBlockWords ? block.word[(word + 1) % kBlockWords] : next_word;
    std::byte* const to = spread.to + at;
    if constexpr (kWhich == Words::kLast) fence_direct_stores();
    if (at + 4 == spread.bytes) {
      store_relaxed<uint32_t>(to, low);
    } else {
      store_relaxed<uint64_t>(to, low | uint64_t{high} << 32);
    }
  }
}

}  // namespace peal::softnic::gpu
