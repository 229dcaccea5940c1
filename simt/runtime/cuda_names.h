// SPDX-License-Identifier: Apache-2.0
//
// CUDA's own names for what simt offers, in the global namespace, so that one kernel source
// compiles with g++ and with nvcc. Include it only where nvcc does not look: nvcc has these built
// in.
//
// Invariant: meanings are CUDA's. Atomics are relaxed. Loops over these calls cannot starve another
// lane: every 64th atomic or fence of a worker is a turn for the others.
#pragma once

#if defined(__CUDACC__) && !defined(__PEAL_CC__)
#error "simt/runtime/cuda_names.h is for the CPU build; nvcc provides these names itself"
#endif

#include <atomic>
#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "simt/lanes/lane.h"
#include "simt/lanes/sanitizer.h"

using peal::simt::blockDim;
using peal::simt::blockIdx;
using peal::simt::gridDim;
using peal::simt::threadIdx;

inline constexpr int warpSize = peal::simt::kWarpLanes;

// ---- barriers

inline void __syncthreads() { peal::simt::sync_block(); }
inline int __syncthreads_count(int predicate) {
  return peal::simt::sync_block_count(predicate != 0);
}
inline int __syncthreads_or(int predicate) { return __syncthreads_count(predicate) != 0; }
inline int __syncthreads_and(int predicate) { return __syncthreads_count(predicate == 0) == 0; }
inline void __syncwarp(unsigned mask = 0xffffffff) { peal::simt::sync_warp(mask); }

// ---- votes

// Always inlined, so that the return address seen by converged_mask() is the place in the kernel.
[[gnu::always_inline]] inline unsigned __activemask() { return peal::simt::converged_mask(); }

inline unsigned __ballot_sync(unsigned mask, int predicate) {
  return peal::simt::ballot(mask, predicate != 0);
}
inline int __any_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate) != 0; }
inline int __all_sync(unsigned mask, int predicate) {
  return __ballot_sync(mask, predicate == 0) == 0;
}

namespace peal::simt::cuda {

template <class T>
concept Word = std::is_trivially_copyable_v<T> && sizeof(T) <= 8 && std::has_single_bit(sizeof(T));

template <Word T>
uint64_t to_bits(T value) {
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  return bits;
}

template <Word T>
T shuffle(unsigned mask, T value, unsigned source) {
  const uint64_t bits = simt::shuffle(mask, to_bits(value), source);
  T result;
  std::memcpy(static_cast<void*>(&result), &bits, sizeof result);
  return result;
}

}  // namespace peal::simt::cuda

template <peal::simt::cuda::Word T>
unsigned __match_any_sync(unsigned mask, T value) {
  return peal::simt::match_any(mask, peal::simt::cuda::to_bits(value));
}

template <peal::simt::cuda::Word T>
unsigned __match_all_sync(unsigned mask, T value, int* all_equal) {
  const unsigned everyone = mask & peal::simt::warp_mask();
  *all_equal = __match_any_sync(mask, value) == everyone;
  return *all_equal ? everyone : 0;
}

// ---- shuffles; `width` (a power of two) cuts the warp into segments that do not see each other

template <peal::simt::cuda::Word T>
T __shfl_sync(unsigned mask, T value, int source_lane, int width = warpSize) {
  const unsigned within = static_cast<unsigned>(width) - 1;
  const unsigned lane = peal::simt::lane_id();
  const unsigned source = (lane & ~within) | (static_cast<unsigned>(source_lane) & within);
  return peal::simt::cuda::shuffle(mask, value, source);
}

template <peal::simt::cuda::Word T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = warpSize) {
  const unsigned lane = peal::simt::lane_id();
  const unsigned rank = lane & (static_cast<unsigned>(width) - 1);
  return peal::simt::cuda::shuffle(mask, value, rank >= delta ? lane - delta : lane);
}

template <peal::simt::cuda::Word T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = warpSize) {
  const unsigned lane = peal::simt::lane_id();
  const unsigned rank = lane & (static_cast<unsigned>(width) - 1);
  const bool inside = delta < static_cast<unsigned>(width) - rank;
  return peal::simt::cuda::shuffle(mask, value, inside ? lane + delta : lane);
}

template <peal::simt::cuda::Word T>
T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = warpSize) {
  const unsigned lane = peal::simt::lane_id();
  const unsigned source = lane ^ static_cast<unsigned>(lane_mask);
  // CUDA lets a lane read earlier segments, never later ones.
  const unsigned last = lane | (static_cast<unsigned>(width) - 1);
  return peal::simt::cuda::shuffle(mask, value, source <= last ? source : lane);
}

// ---- bits

inline int __popc(unsigned x) { return std::popcount(x); }
inline int __popcll(unsigned long long x) { return std::popcount(x); }
inline int __clz(int x) { return std::countl_zero(static_cast<unsigned>(x)); }
inline int __clzll(long long x) { return std::countl_zero(static_cast<unsigned long long>(x)); }
inline int __ffs(int x) { return x == 0 ? 0 : std::countr_zero(static_cast<unsigned>(x)) + 1; }
inline int __ffsll(long long x) {
  return x == 0 ? 0 : std::countr_zero(static_cast<unsigned long long>(x)) + 1;
}

// ---- time

/// A turn for the other lanes, however short `nanoseconds` is.
inline void __nanosleep(unsigned) { peal::simt::yield(); }

/// Nanoseconds of a steady clock, not cycles.
inline long long clock64() {
  peal::simt::breathe();
  return static_cast<long long>(peal::simt::now_ns());
}

// ---- fences

namespace peal::simt::cuda {

inline void fence(FenceReach reach) {
  breathe();
  if (!simulated_fence(reach)) full_fence();
}

}  // namespace peal::simt::cuda

inline void __threadfence() { peal::simt::cuda::fence(peal::simt::FenceReach::kDevice); }
inline void __threadfence_block() { peal::simt::cuda::fence(peal::simt::FenceReach::kBlock); }
inline void __threadfence_system() { peal::simt::cuda::fence(peal::simt::FenceReach::kSystem); }

// ---- atomics on int, unsigned, unsigned long long, and where CUDA has them float and double

namespace peal::simt::cuda {

/// Replaces *address by next(old) and returns old.
template <class T, class Next>
T update(T* address, Next next) {
  breathe();
  std::atomic_ref<T> word(*address);
  T old = word.load(std::memory_order_relaxed);
  while (!word.compare_exchange_weak(old, next(old), std::memory_order_relaxed)) {
  }
  return old;
}

template <class T>
using Same = std::type_identity_t<T>;

template <class T>
concept Integer = std::is_integral_v<T> &&(sizeof(T) == 4 || sizeof(T) == 8);

template <class T>
concept Number = Integer<T> || std::is_same_v<T, float> || std::is_same_v<T, double>;

}  // namespace peal::simt::cuda

template <peal::simt::cuda::Number T>
T atomicAdd(T* address, peal::simt::cuda::Same<T> value) {
  peal::simt::breathe();
  return std::atomic_ref<T>(*address).fetch_add(value, std::memory_order_relaxed);
}
template <peal::simt::cuda::Integer T>
T atomicSub(T* address, peal::simt::cuda::Same<T> value) {
  peal::simt::breathe();
  return std::atomic_ref<T>(*address).fetch_sub(value, std::memory_order_relaxed);
}
template <peal::simt::cuda::Number T>
T atomicExch(T* address, peal::simt::cuda::Same<T> value) {
  peal::simt::breathe();
  return std::atomic_ref<T>(*address).exchange(value, std::memory_order_relaxed);
}
template <peal::simt::cuda::Integer T>
T atomicCAS(T* address, peal::simt::cuda::Same<T> compare, peal::simt::cuda::Same<T> value) {
  peal::simt::breathe();
  std::atomic_ref<T>(*address).compare_exchange_strong(compare, value, std::memory_order_relaxed);
  return compare;
}
template <peal::simt::cuda::Integer T>
T atomicAnd(T* address, peal::simt::cuda::Same<T> value) {
  peal::simt::breathe();
  return std::atomic_ref<T>(*address).fetch_and(value, std::memory_order_relaxed);
}
template <peal::simt::cuda::Integer T>
T atomicOr(T* address, peal::simt::cuda::Same<T> value) {
  peal::simt::breathe();
  return std::atomic_ref<T>(*address).fetch_or(value, std::memory_order_relaxed);
}
template <peal::simt::cuda::Integer T>
T atomicXor(T* address, peal::simt::cuda::Same<T> value) {
  peal::simt::breathe();
  return std::atomic_ref<T>(*address).fetch_xor(value, std::memory_order_relaxed);
}
template <peal::simt::cuda::Integer T>
T atomicMin(T* address, peal::simt::cuda::Same<T> value) {
  return peal::simt::cuda::update(address, [=](T old) { return value < old ? value : old; });
}
template <peal::simt::cuda::Integer T>
T atomicMax(T* address, peal::simt::cuda::Same<T> value) {
  return peal::simt::cuda::update(address, [=](T old) { return old < value ? value : old; });
}
inline unsigned atomicInc(unsigned* address, unsigned last) {
  return peal::simt::cuda::update(address, [=](unsigned old) { return old >= last ? 0 : old + 1; });
}
inline unsigned atomicDec(unsigned* address, unsigned last) {
  return peal::simt::cuda::update(
      address, [=](unsigned old) { return old == 0 || old > last ? last : old - 1; });
}
