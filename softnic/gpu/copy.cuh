// SPDX-License-Identifier: Apache-2.0
//
// Moving payload inside the NIC's kernel: by a whole warp, by one lane, and out of
// registers. By many warps in parts: jobs.cuh.
//
//   ends aligned alike:   head | 16-byte lines, several in flight a lane | tail
//   not aligned alike:    the same, each line put together from two of the source
//
// Loads never come from a stale cache line; nothing is promised about the order in which bytes
// appear.
#pragma once

#include <cstdint>

#include "device/base/order.h"
#include "softnic/engine/responder.h"
#include "softnic/engine/word.h"
#include "softnic/gpu/batch.h"

namespace peal::softnic::gpu {

inline constexpr uint32_t kLanes = 32;
inline constexpr uint32_t kAll = ~0u;
inline constexpr uint32_t kSmallBytes = 64;  // a lane copies alone up to here

template <class T>
__device__ T volatile_load(const T* at) {
  return *static_cast<const volatile T*>(at);
}

template <class T>
__device__ T* broadcast(T* pointer, uint32_t lane) {
  return reinterpret_cast<T*>(
      __shfl_sync(kAll, reinterpret_cast<unsigned long long>(pointer), static_cast<int>(lane)));
}

template <class T>
__device__ void copy_units(std::byte* to, const std::byte* from, uint64_t units, uint32_t first,
                           uint32_t step) {
  for (uint64_t i = first; i < units; i += step) {
    reinterpret_cast<T*>(to)[i] = volatile_load(reinterpret_cast<const T*>(from) + i);
  }
}

/// Lines `i`, `i` + kLanes, ... of a lane as long as kDeep of them fit; answers the next.
template <uint32_t kDeep>
__device__ uint64_t copy_deep(std::byte* to, const std::byte* from, uint64_t lines, uint64_t i) {
  for (; i + (kDeep - 1) * kLanes < lines; i += kDeep * kLanes) {
    Line line[kDeep];
#pragma unroll
    for (uint32_t k = 0; k < kDeep; ++k) line[k] = load_line_direct(from + 16 * (i + k * kLanes));
#pragma unroll
    for (uint32_t k = 0; k < kDeep; ++k) store_line(to + 16 * (i + k * kLanes), line[k]);
  }
  return i;
}

/// 16 bytes at a time, many in flight: what a load costs over a link is its latency.
__device__ inline void copy_lines(std::byte* to, const std::byte* from, uint64_t lines,
                                  uint32_t lane) {
  const uint64_t i = copy_deep<4>(to, from, lines, copy_deep<16>(to, from, lines, lane));
  copy_deep<1>(to, from, lines, i);
}

/// Sixteen bytes from `bits / 8` bytes into `low`, which `high` follows; 0 < bits < 128.
__device__ inline Line shifted(const Line& low, const Line& high, uint32_t bits) {
  const bool far = bits >= 64;
  const uint32_t by = bits & 63;
  const uint64_t a = far ? low.word[1] : low.word[0];
  const uint64_t b = far ? high.word[0] : low.word[1];
  const uint64_t c = far ? high.word[1] : high.word[0];
  if (by == 0) return {{a, b}};
  return {{a >> by | b << (64 - by), b >> by | c << (64 - by)}};
}

/// copy_lines() from a source that is not aligned. Reads whole lines: those of the source that hold
/// its first and last byte.
__device__ inline void copy_shifted(std::byte* to, const std::byte* from, uint64_t lines,
                                    uint32_t lane) {
  constexpr uint32_t kDeep = 4;
  const auto skew = static_cast<uint32_t>(reinterpret_cast<uint64_t>(from) & 15);
  const std::byte* base = from - skew;
  const uint32_t bits = 8 * skew;
  uint64_t i = lane;
  for (; i + (kDeep - 1) * kLanes < lines; i += kDeep * kLanes) {
    Line low[kDeep], high[kDeep];
#pragma unroll
    for (uint32_t k = 0; k < kDeep; ++k) {
      low[k] = load_line_direct(base + 16 * (i + k * kLanes));
      high[k] = load_line_direct(base + 16 * (i + k * kLanes) + 16);
    }
#pragma unroll
    for (uint32_t k = 0; k < kDeep; ++k) {
      store_line(to + 16 * (i + k * kLanes), shifted(low[k], high[k], bits));
    }
  }
  for (; i < lines; i += kLanes) {
    const Line low = load_line_direct(base + 16 * i);
    store_line(to + 16 * i, shifted(low, load_line_direct(base + 16 * i + 16), bits));
  }
}

/// At most 16 bytes, by a whole warp; 4-byte words in one piece where both sides and the length
/// consist of them.
__device__ inline void copy_end(std::byte* to, const std::byte* from, uint64_t bytes,
                                uint32_t lane) {
  const uint64_t all = reinterpret_cast<uint64_t>(to) | reinterpret_cast<uint64_t>(from) | bytes;
  if (all % 4 == 0) return copy_units<uint32_t>(to, from, bytes / 4, lane, kLanes);
  copy_units<uint8_t>(to, from, bytes, lane, kLanes);
}

/// By a whole warp.
__device__ inline void copy_together(std::byte* to, const std::byte* from, uint64_t bytes,
                                     uint32_t lane) {
  const uint64_t misaligned = -reinterpret_cast<uint64_t>(to) & 15;
  const uint64_t head = misaligned < bytes ? misaligned : bytes;
  copy_end(to, from, head, lane);
  const uint64_t lines = (bytes - head) / 16;
  if (aligned(from + head, 16)) {
    copy_lines(to + head, from + head, lines, lane);
  } else {
    copy_shifted(to + head, from + head, lines, lane);
  }
  const uint64_t done = head + 16 * lines;
  copy_end(to + done, from + done, bytes - done, lane);
}

/// By one lane: at most kSmallBytes.
__device__ inline void copy_alone(std::byte* to, const std::byte* from, uint32_t bytes) {
  const uint64_t both = reinterpret_cast<uint64_t>(to) | reinterpret_cast<uint64_t>(from) | bytes;
  if (both % 8 == 0) return copy_units<uint64_t>(to, from, bytes / 8, 0, 1);
  if (both % 4 == 0) return copy_units<uint32_t>(to, from, bytes / 4, 0, 1);
  copy_units<uint8_t>(to, from, bytes, 0, 1);
}

/// Inline bytes that are one word (single_word()), out of registers.
__device__ inline void store_inline_word(std::byte* to, const FetchedBlock& block, uint32_t bytes) {
  const uint32_t low = block.word[kInlineWord];
  if (bytes == 4) return store_relaxed<uint32_t>(to, low);
  store_relaxed<uint64_t>(to, low | uint64_t{block.word[kInlineWord + 1]} << 32);
}

/// Inline bytes, out of registers.
__device__ inline void store_inline(std::byte* to, const FetchedBlock& block, uint32_t bytes) {
  if (bytes == 8 && aligned(to, 8)) return store_inline_word(to, block, 8);
  const bool words = aligned(to, 4);
#pragma unroll
  for (uint32_t i = 0; i < mlx5::kMaxInlineBytes / 4; ++i) {
    const uint32_t word = block.word[kInlineWord + i];
    if (words && i * 4 + 4 <= bytes) {
      store_relaxed<uint32_t>(to + i * 4, word);
      continue;
    }
#pragma unroll
    for (uint32_t k = 0; k < 4; ++k) {
      if (i * 4 + k < bytes) to[i * 4 + k] = static_cast<std::byte>(word >> (8 * k));
    }
  }
}

/// Executes an atomic whose block is in registers; answers the old value in the low bytes as they
/// are to be stored at home. It is done when the answer is there.
__device__ inline uint64_t run_atomic(const Shot& shot, const FetchedBlock& block) {
  const AtomicOperands operands = operation_of(block, shot.units).operands;
  if (shot.bytes == 4) {
    return Be32(execute_atomic<uint32_t, kRelaxed>(shot.to, shot.opcode, operands)).raw;
  }
  return execute_atomic<uint64_t, kRelaxed>(shot.to, shot.opcode, operands);
}

__device__ inline void store_old_value(const Shot& shot, uint64_t old) {
  if (shot.bytes == 4) return store_relaxed<uint32_t>(shot.from, static_cast<uint32_t>(old));
  store_relaxed<uint64_t>(shot.from, old);
}

}  // namespace peal::softnic::gpu
