// SPDX-License-Identifier: Apache-2.0
//
// order.h on a CPU: compiler atomics. Reach beyond kLane makes no difference here; the simulator
// tells them apart.
#pragma once

#include <cstdint>

#include "device/base/edge.h"
#include "device/base/reach.h"
#include "device/base/target.h"

namespace peal {

template <Reach R, Edge E = Edge::kNone, class T>
PEAL_HD T load_relaxed(const T* p) {
  if constexpr (R == Reach::kLane) return *p;
  return __atomic_load_n(p, __ATOMIC_RELAXED);
}

template <Reach R, Edge E = Edge::kNone, class T>
PEAL_HD T load_acquire(const T* p) {
  if constexpr (R == Reach::kLane) return *p;
  return __atomic_load_n(p, __ATOMIC_ACQUIRE);
}

template <Reach R, Edge E = Edge::kNone, class T>
PEAL_HD void store_relaxed(T* p, T value) {
  if constexpr (R == Reach::kLane) {
    *p = value;
  } else {
#if defined(__SANITIZE_THREAD__)
    // It does not understand fences: a store into a peer's memory carries the one before it.
    __atomic_store_n(p, value, R == Reach::kSystem ? __ATOMIC_RELEASE : __ATOMIC_RELAXED);
#else
    __atomic_store_n(p, value, __ATOMIC_RELAXED);
#endif
  }
}

template <Reach R, Edge E = Edge::kNone, class T>
PEAL_HD void store_release(T* p, T value) {
  if constexpr (R == Reach::kLane) {
    *p = value;
  } else {
    __atomic_store_n(p, value, __ATOMIC_RELEASE);
  }
}

/// Adds and returns the old value; orders nothing.
template <Reach R, Edge E = Edge::kNone, class T>
PEAL_HD T fetch_add_relaxed(T* p, T value) {
  if constexpr (R == Reach::kLane) {
    const T old = *p;
    *p = static_cast<T>(old + value);
    return old;
  }
  return __atomic_fetch_add(p, value, __ATOMIC_RELAXED);
}

/// Swaps in `value`; acquires what the previous writer released and releases what came before.
template <Reach R, Edge E = Edge::kNone, class T>
PEAL_HD T exchange(T* p, T value) {
  if constexpr (R == Reach::kLane) {
    const T old = *p;
    *p = value;
    return old;
  }
  return __atomic_exchange_n(p, value, __ATOMIC_ACQ_REL);
}

/// Stores `desired` if *p is `expected`; true on success. Acquires and releases.
template <Reach R, Edge E = Edge::kNone, class T>
PEAL_HD bool compare_exchange(T* p, T expected, T desired) {
  if constexpr (R == Reach::kLane) {
    if (*p != expected) return false;
    *p = desired;
    return true;
  }
  return __atomic_compare_exchange_n(p, &expected, desired, false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_ACQUIRE);
}

/// Raises *p to at least `value`. Acquires and releases.
template <Reach R, Edge E = Edge::kNone, class T>
PEAL_HD void raise_to(T* p, T value) {
  if constexpr (R == Reach::kLane) {
    if (*p < value) *p = value;
  } else {
    T seen = __atomic_load_n(p, __ATOMIC_ACQUIRE);
    while (seen < value && !__atomic_compare_exchange_n(p, &seen, value, true, __ATOMIC_ACQ_REL,
                                                        __ATOMIC_ACQUIRE)) {
    }
  }
}

/// Without the old value: nobody waits for it. add_release releases what came before.
template <Reach R, Edge E = Edge::kNone, class T>
PEAL_HD void add_relaxed(T* p, T value) {
  __atomic_fetch_add(p, value, __ATOMIC_RELAXED);
}
template <Reach R, Edge E = Edge::kNone, class T>
PEAL_HD void add_release(T* p, T value) {
  __atomic_fetch_add(p, value, __ATOMIC_RELEASE);
}
template <Reach R, Edge E = Edge::kNone, class T>
PEAL_HD void and_relaxed(T* p, T value) {
  __atomic_fetch_and(p, value, __ATOMIC_RELAXED);
}
template <Reach R, Edge E = Edge::kNone, class T>
PEAL_HD void or_relaxed(T* p, T value) {
  __atomic_fetch_or(p, value, __ATOMIC_RELAXED);
}
template <Reach R, Edge E = Edge::kNone, class T>
PEAL_HD void xor_relaxed(T* p, T value) {
  __atomic_fetch_xor(p, value, __ATOMIC_RELAXED);
}

/// Bitwise operations; return the old value and order nothing.
template <Reach R, Edge E = Edge::kNone, class T>
PEAL_HD T fetch_and_relaxed(T* p, T value) {
  return __atomic_fetch_and(p, value, __ATOMIC_RELAXED);
}
template <Reach R, Edge E = Edge::kNone, class T>
PEAL_HD T fetch_or_relaxed(T* p, T value) {
  return __atomic_fetch_or(p, value, __ATOMIC_RELAXED);
}
template <Reach R, Edge E = Edge::kNone, class T>
PEAL_HD T fetch_xor_relaxed(T* p, T value) {
  return __atomic_fetch_xor(p, value, __ATOMIC_RELAXED);
}

/// The old value, or `expected` on success; orders nothing.
template <Reach R, Edge E = Edge::kNone, class T>
PEAL_HD T fetch_compare_swap_relaxed(T* p, T expected, T desired) {
  __atomic_compare_exchange_n(p, &expected, desired, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
  return expected;
}
template <Reach R, Edge E = Edge::kNone, class T>
PEAL_HD T exchange_relaxed(T* p, T value) {
  return __atomic_exchange_n(p, value, __ATOMIC_RELAXED);
}

/// One of several loads that are under way at once; acquire_batch() behind them makes each an
/// acquire.
template <Reach R, Edge E = Edge::kNone, class T>
PEAL_HD T load_batched(const T* p) {
  return load_acquire<R>(p);
}
template <Edge E = Edge::kNone>
PEAL_HD void acquire_batch() {}

/// Orders this lane's stores into peers' memory (and those of lanes it has synchronised with)
/// before what it stores next. Edge M16.
template <Edge E = Edge::kNone>
PEAL_HD void fence_direct_stores() {
#if defined(__SANITIZE_THREAD__)
  static uint32_t word = 0;  // ThreadSanitizer does not understand fences
  __atomic_fetch_add(&word, 0, __ATOMIC_ACQ_REL);
#else
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
}

/// Orders what this lane has written, and what it knows of other lanes' writes, before what it
/// tells the NIC next. Reach::kGpu is enough where the NIC reads all of it from this GPU's memory.
template <Reach R, Edge E = Edge::kNone>
PEAL_HD void fence_posted() {
  static_assert(R == Reach::kGpu || R == Reach::kSystem);
#if !defined(__SANITIZE_THREAD__)  // which does not understand fences: the stores behind it release
  __atomic_thread_fence(__ATOMIC_RELEASE);
#endif
}

/// True if store_mmio() may arrive before this lane's earlier stores.
inline constexpr bool kMmioMayOvertake = false;

/// Rings a NIC register: an 8-byte store that is neither merged nor dropped.
PEAL_HD void store_mmio(uint64_t* reg, uint64_t value) {
  __atomic_store_n(reg, value, __ATOMIC_RELEASE);
}

/// Behind store_mmio() of a thread: sends the value on. Where the page is mapped write-combining it
/// would wait in the CPU, and the next store to the same register would take its place.
inline void flush_mmio() {
#if defined(__x86_64__)
  __builtin_ia32_sfence();
#elif defined(__aarch64__)
  asm volatile("dsb st" ::: "memory");
#else
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
}

}  // namespace peal
