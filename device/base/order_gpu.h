// SPDX-License-Identifier: Apache-2.0
//
// order.h on a GPU: PTX memory operations with explicit scope, for 4- and 8-byte unsigned words.
#pragma once

#include <cstdint>

#include "device/base/edge.h"
#include "device/base/reach.h"
#include "device/base/target.h"

namespace peal {

static_assert(sizeof(unsigned long) == 8);

namespace ptx {

// One definition for each operation, scope and width; `r`/`l` are the register constraints of 32
// and 64 bits.
#define PEAL_PTX_LOAD(name, op, scope, T, width, reg)                                   \
  PEAL_DEVICE T name(const T* p) {                                                      \
    T v;                                                                                \
    asm volatile(op "." scope "." width " %0, [%1];" : "=" reg(v) : "l"(p) : "memory"); \
    return v;                                                                           \
  }
#define PEAL_PTX_STORE(name, op, scope, T, width, reg)                             \
  PEAL_DEVICE void name(T* p, T v) {                                               \
    asm volatile(op "." scope "." width " [%0], %1;" ::"l"(p), reg(v) : "memory"); \
  }
#define PEAL_PTX_RMW(name, op, width, T, reg)                                               \
  PEAL_DEVICE T name(T* p, T v) {                                                           \
    T old;                                                                                  \
    asm volatile(op "." width " %0, [%1], %2;" : "=" reg(old) : "l"(p), reg(v) : "memory"); \
    return old;                                                                             \
  }
#define PEAL_PTX_RED(name, op, width, T, reg)                            \
  PEAL_DEVICE void name(T* p, T v) {                                     \
    asm volatile(op "." width " [%0], %1;" ::"l"(p), reg(v) : "memory"); \
  }
#define PEAL_PTX_CAS(name, order, width, T, reg)                  \
  PEAL_DEVICE T name(T* p, T expected, T desired) {               \
    T old;                                                        \
    asm volatile("atom." order ".cas." width " %0, [%1], %2, %3;" \
                 : "=" reg(old)                                   \
                 : "l"(p), reg(expected), reg(desired)            \
                 : "memory");                                     \
    return old;                                                   \
  }
#define PEAL_PTX_WIDTH(scope_name, scope, T, bits, reg)                                      \
  PEAL_PTX_LOAD(load_relaxed_##scope_name, "ld.relaxed", scope, T, "b" #bits, reg)           \
  PEAL_PTX_LOAD(load_acquire_##scope_name, "ld.acquire", scope, T, "b" #bits, reg)           \
  PEAL_PTX_STORE(store_relaxed_##scope_name, "st.relaxed", scope, T, "b" #bits, reg)         \
  PEAL_PTX_STORE(store_release_##scope_name, "st.release", scope, T, "b" #bits, reg)         \
  PEAL_PTX_RMW(add_##scope_name, "atom.relaxed." scope ".add", "u" #bits, T, reg)            \
  PEAL_PTX_RMW(exchange_##scope_name, "atom.acq_rel." scope ".exch", "b" #bits, T, reg)      \
  PEAL_PTX_RED(red_add_##scope_name, "red.relaxed." scope ".add", "u" #bits, T, reg)         \
  PEAL_PTX_RED(red_add_release_##scope_name, "red.release." scope ".add", "u" #bits, T, reg) \
  PEAL_PTX_RED(red_and_##scope_name, "red.relaxed." scope ".and", "b" #bits, T, reg)         \
  PEAL_PTX_RED(red_or_##scope_name, "red.relaxed." scope ".or", "b" #bits, T, reg)           \
  PEAL_PTX_RED(red_xor_##scope_name, "red.relaxed." scope ".xor", "b" #bits, T, reg)         \
  PEAL_PTX_RMW(and_##scope_name, "atom.relaxed." scope ".and", "b" #bits, T, reg)            \
  PEAL_PTX_RMW(or_##scope_name, "atom.relaxed." scope ".or", "b" #bits, T, reg)              \
  PEAL_PTX_RMW(xor_##scope_name, "atom.relaxed." scope ".xor", "b" #bits, T, reg)            \
  PEAL_PTX_RMW(swap_##scope_name, "atom.relaxed." scope ".exch", "b" #bits, T, reg)          \
  PEAL_PTX_CAS(cas_relaxed_##scope_name, "relaxed." scope, "b" #bits, T, reg)                \
  PEAL_PTX_RMW(max_##scope_name, "atom.acq_rel." scope ".max", "u" #bits, T, reg)            \
  PEAL_PTX_CAS(cas_##scope_name, "acq_rel." scope, "b" #bits, T, reg)
#define PEAL_PTX_SCOPE(scope_name, scope)              \
  PEAL_PTX_WIDTH(scope_name, scope, uint32_t, 32, "r") \
  PEAL_PTX_WIDTH(scope_name, scope, uint64_t, 64, "l")

// Words of one block may lie in shared memory; what others reach lies in global memory.
PEAL_PTX_SCOPE(block, "cta")
PEAL_PTX_SCOPE(gpu, "gpu.global")
PEAL_PTX_SCOPE(system, "sys.global")

#undef PEAL_PTX_SCOPE
#undef PEAL_PTX_WIDTH
#undef PEAL_PTX_CAS
#undef PEAL_PTX_RED
#undef PEAL_PTX_RMW
#undef PEAL_PTX_STORE
#undef PEAL_PTX_LOAD

}  // namespace ptx

template <Reach R, Edge E = Edge::kNone, class T>
PEAL_HD T load_relaxed(const T* p) {
  if constexpr (R == Reach::kLane) return *p;
  if constexpr (R == Reach::kBlock) return ptx::load_relaxed_block(p);
  if constexpr (R == Reach::kGpu) return ptx::load_relaxed_gpu(p);
  if constexpr (R == Reach::kSystem) return ptx::load_relaxed_system(p);
}

template <Reach R, Edge E = Edge::kNone, class T>
PEAL_HD T load_acquire(const T* p) {
  if constexpr (R == Reach::kLane) return *p;
  if constexpr (R == Reach::kBlock) return ptx::load_acquire_block(p);
  if constexpr (R == Reach::kGpu) return ptx::load_acquire_gpu(p);
  if constexpr (R == Reach::kSystem) return ptx::load_acquire_system(p);
}

template <Reach R, Edge E = Edge::kNone, class T>
PEAL_HD void store_relaxed(T* p, T value) {
  if constexpr (R == Reach::kLane) *p = value;
  if constexpr (R == Reach::kBlock) ptx::store_relaxed_block(p, value);
  if constexpr (R == Reach::kGpu) ptx::store_relaxed_gpu(p, value);
  if constexpr (R == Reach::kSystem) ptx::store_relaxed_system(p, value);
}

template <Reach R, Edge E = Edge::kNone, class T>
PEAL_HD void store_release(T* p, T value) {
  if constexpr (R == Reach::kLane) *p = value;
  if constexpr (R == Reach::kBlock) ptx::store_release_block(p, value);
  if constexpr (R == Reach::kGpu) ptx::store_release_gpu(p, value);
  if constexpr (R == Reach::kSystem) ptx::store_release_system(p, value);
}

template <Reach R, Edge E = Edge::kNone, class T>
PEAL_HD T fetch_add_relaxed(T* p, T value) {
  if constexpr (R == Reach::kLane) {
    const T old = *p;
    *p = old + value;
    return old;
  }
  if constexpr (R == Reach::kBlock) return ptx::add_block(p, value);
  if constexpr (R == Reach::kGpu) return ptx::add_gpu(p, value);
  if constexpr (R == Reach::kSystem) return ptx::add_system(p, value);
}

template <Reach R, Edge E = Edge::kNone, class T>
PEAL_HD T exchange(T* p, T value) {
  if constexpr (R == Reach::kLane) {
    const T old = *p;
    *p = value;
    return old;
  }
  if constexpr (R == Reach::kBlock) return ptx::exchange_block(p, value);
  if constexpr (R == Reach::kGpu) return ptx::exchange_gpu(p, value);
  if constexpr (R == Reach::kSystem) return ptx::exchange_system(p, value);
}

template <Reach R, Edge E = Edge::kNone, class T>
PEAL_HD bool compare_exchange(T* p, T expected, T desired) {
  if constexpr (R == Reach::kLane) {
    if (*p != expected) return false;
    *p = desired;
    return true;
  }
  if constexpr (R == Reach::kBlock) return ptx::cas_block(p, expected, desired) == expected;
  if constexpr (R == Reach::kGpu) return ptx::cas_gpu(p, expected, desired) == expected;
  if constexpr (R == Reach::kSystem) return ptx::cas_system(p, expected, desired) == expected;
}

template <Reach R, Edge E = Edge::kNone, class T>
PEAL_HD void raise_to(T* p, T value) {
  if constexpr (R == Reach::kLane) {
    if (*p < value) *p = value;
  }
  if constexpr (R == Reach::kBlock) ptx::max_block(p, value);
  if constexpr (R == Reach::kGpu) ptx::max_gpu(p, value);
  if constexpr (R == Reach::kSystem) ptx::max_system(p, value);
}

// Only peers' memory is reached this way, so only system reach is offered.
template <Reach R, Edge E = Edge::kNone, class T>
PEAL_HD void add_relaxed(T* p, T value) {
  static_assert(R == Reach::kSystem);
  ptx::red_add_system(p, value);
}
template <Reach R, Edge E = Edge::kNone, class T>
PEAL_HD void add_release(T* p, T value) {
  static_assert(R == Reach::kSystem);
  ptx::red_add_release_system(p, value);
}
template <Reach R, Edge E = Edge::kNone, class T>
PEAL_HD void and_relaxed(T* p, T value) {
  static_assert(R == Reach::kSystem);
  ptx::red_and_system(p, value);
}
template <Reach R, Edge E = Edge::kNone, class T>
PEAL_HD void or_relaxed(T* p, T value) {
  static_assert(R == Reach::kSystem);
  ptx::red_or_system(p, value);
}
template <Reach R, Edge E = Edge::kNone, class T>
PEAL_HD void xor_relaxed(T* p, T value) {
  static_assert(R == Reach::kSystem);
  ptx::red_xor_system(p, value);
}
template <Reach R, Edge E = Edge::kNone, class T>
PEAL_HD T fetch_and_relaxed(T* p, T value) {
  static_assert(R == Reach::kSystem);
  return ptx::and_system(p, value);
}
template <Reach R, Edge E = Edge::kNone, class T>
PEAL_HD T fetch_or_relaxed(T* p, T value) {
  static_assert(R == Reach::kSystem);
  return ptx::or_system(p, value);
}
template <Reach R, Edge E = Edge::kNone, class T>
PEAL_HD T fetch_xor_relaxed(T* p, T value) {
  static_assert(R == Reach::kSystem);
  return ptx::xor_system(p, value);
}
template <Reach R, Edge E = Edge::kNone, class T>
PEAL_HD T fetch_compare_swap_relaxed(T* p, T expected, T desired) {
  static_assert(R == Reach::kSystem);
  return ptx::cas_relaxed_system(p, expected, desired);
}
template <Reach R, Edge E = Edge::kNone, class T>
PEAL_HD T exchange_relaxed(T* p, T value) {
  static_assert(R == Reach::kSystem);
  return ptx::swap_system(p, value);
}

template <Reach R, Edge E = Edge::kNone, class T>
PEAL_HD T load_batched(const T* p) {
  return load_relaxed<R>(p);
}
template <Edge E = Edge::kNone>
PEAL_HD void acquire_batch() {
  asm volatile("fence.acq_rel.gpu;" ::: "memory");
}

#if __CUDACC_VER_MAJOR__ * 100 + __CUDACC_VER_MINOR__ >= 1208 && __CUDA_ARCH__ >= 900
#define PEAL_PTX_FENCE "fence.release"  // leaves this multiprocessor's cache alone
#else
#define PEAL_PTX_FENCE "fence.acq_rel"
#endif

template <Edge E = Edge::kNone>
PEAL_HD void fence_direct_stores() {
  asm volatile(PEAL_PTX_FENCE ".sys;" ::: "memory");
}

// With GPU scope the writes have reached this GPU's second-level cache, which is where a NIC that
// reads this GPU's memory reads them.
template <Reach R, Edge E = Edge::kNone>
PEAL_HD void fence_posted() {
  static_assert(R == Reach::kGpu || R == Reach::kSystem);
  if constexpr (R == Reach::kGpu) asm volatile(PEAL_PTX_FENCE ".gpu;" ::: "memory");
  if constexpr (R == Reach::kSystem) asm volatile(PEAL_PTX_FENCE ".sys;" ::: "memory");
}
#undef PEAL_PTX_FENCE

inline constexpr bool kMmioMayOvertake = true;
PEAL_HD void store_mmio(uint64_t* reg, uint64_t value) {
  // Never merged or dropped, and behind this lane's earlier stores in program order only: a fence
  // would cost as much as the rest of a put.
  asm volatile("st.mmio.relaxed.sys.global.b64 [%0], %1;" ::"l"(reg), "l"(value) : "memory");
}

}  // namespace peal
