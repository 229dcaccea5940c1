// SPDX-License-Identifier: Apache-2.0
//
// Blocks of a send queue in the registers of lanes.
//
//   lane i: block next + i, and of a request of several blocks what lane i + 1 has of it
#pragma once

#include <cstdint>

#include "device/base/order.h"
#include "softnic/gpu/batch.h"
#include "softnic/gpu/copy.cuh"
#include "softnic/gpu/slot.cuh"

namespace peal::softnic::gpu {

__device__ inline void fetch(const EngineSlot& s, uint64_t index, Block& block) {
  const std::byte* at = s.ring + (index & s.mask) * mlx5::kWqebbBytes;
#pragma unroll
  for (uint32_t i = 0; i < 4; ++i) {
    const Line line = load_line_direct(at + 16 * i);
    block.word[4 * i] = static_cast<uint32_t>(line.word[0]);
    block.word[4 * i + 1] = static_cast<uint32_t>(line.word[0] >> 32);
    block.word[4 * i + 2] = static_cast<uint32_t>(line.word[1]);
    block.word[4 * i + 3] = static_cast<uint32_t>(line.word[1] >> 32);
  }
}

/// What a request that runs past the block at `index` has in the next one.
__device__ inline void fetch(const EngineSlot& s, uint64_t index, Tail& tail) {
  const Line line = load_line_direct(s.ring + ((index + 1) & s.mask) * mlx5::kWqebbBytes);
  tail.word[0] = static_cast<uint32_t>(line.word[0]);
  tail.word[1] = static_cast<uint32_t>(line.word[0] >> 32);
  tail.word[2] = static_cast<uint32_t>(line.word[1]);
  tail.word[3] = static_cast<uint32_t>(line.word[1] >> 32);
}

/// What follows the lane's block among the `ready` ones fetched.
__device__ inline Behind look_behind(const EngineSlot& s, uint64_t index, const Block& block,
                                     uint32_t ready, uint32_t lane) {
  Behind behind;
#pragma unroll
  for (uint32_t i = 0; i < 4; ++i) {
    behind.tail.word[i] = __shfl_down_sync(kAll, block.word[i], 1);
  }
  if (lane >= ready) return behind;
  behind.blocks = ready - 1 - lane;
  const uint64_t at = index & s.mask;
  const bool wraps = at + blocks_of(units_of(block)) > uint64_t{s.mask} + 1;
  if (!wraps) behind.inlined = s.ring + at * mlx5::kWqebbBytes + 4 * kInlineWord;
  return behind;
}

/// Lanes whose blocks are inside a request do nothing.
__device__ inline void skip_insides(Shot& shot, uint32_t lane) {
  const uint32_t blocks = shot.kind == Shot::Kind::kNone ? 1 : shot.blocks();
  const uint32_t inside = insides(__ballot_sync(kAll, blocks > 1), [&](uint32_t first) {
    return __shfl_sync(kAll, blocks, static_cast<int>(first));
  });
  if ((inside >> lane & 1) == 0) return;
  shot = {};
  shot.kind = Shot::Kind::kNop;
}

}  // namespace peal::softnic::gpu
