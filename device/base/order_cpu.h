// SPDX-License-Identifier: Apache-2.0
//
// order.h on a CPU: compiler atomics. Reach beyond kLane makes no difference here; the simulator
// tells them apart.
#pragma once

#include <cstring>
#include <iterator>
#include <type_traits>

#include "device/base/access.h"
#include "device/base/edge.h"

namespace peal {
namespace memory {

#if defined(__SANITIZE_THREAD__)
inline constexpr bool kFencesCount = false;  // ThreadSanitizer does not understand fences
#else
inline constexpr bool kFencesCount = true;
#endif

constexpr int order_of(Order order) {
  constexpr int kOrders[] = {__ATOMIC_RELAXED, __ATOMIC_ACQUIRE, __ATOMIC_RELEASE,
                             __ATOMIC_ACQ_REL};
  return kOrders[static_cast<int>(order)];
}

template <Reach R, Order O, Edge E, class T>
PEAL_HD T load(const T* p) {
  if constexpr (R == Reach::kLane) return *p;
  return __atomic_load_n(p, order_of(O));
}

template <Reach R, Order O, Edge E, class T>
PEAL_HD void store(T* p, T value) {
  // A store into a peer's memory carries the fence before it.
  constexpr bool kCarries = !kFencesCount && R == Reach::kSystem;
  if constexpr (R == Reach::kLane) {
    *p = value;
  } else {
    __atomic_store_n(p, value, order_of(kCarries ? Order::kRelease : O));
  }
}

template <Reach R, Order O, Edge E, class T>
PEAL_HD T compare_swap(T* p, T expected, T desired) {
  if constexpr (R == Reach::kLane) {
    const T old = *p;
    if (old == expected) *p = desired;
    return old;
  }
  constexpr Order kFailed = O == Order::kRelaxed ? O : Order::kAcquire;
  __atomic_compare_exchange_n(p, &expected, desired, false, order_of(O), order_of(kFailed));
  return expected;
}

template <Update U, Reach R, Order O, Edge E, class T>
PEAL_HD T update(T* p, T value) {
  if constexpr (R == Reach::kLane) {
    const T old = *p;
    if (U != Update::kRaise || old < value) *p = updated<U>(old, value);
    return old;
  }
  if constexpr (U == Update::kAdd) return __atomic_fetch_add(p, value, order_of(O));
  if constexpr (U == Update::kAnd) return __atomic_fetch_and(p, value, order_of(O));
  if constexpr (U == Update::kOr) return __atomic_fetch_or(p, value, order_of(O));
  if constexpr (U == Update::kXor) return __atomic_fetch_xor(p, value, order_of(O));
  if constexpr (U == Update::kSwap) return __atomic_exchange_n(p, value, order_of(O));
  T seen = load<R, Order::kAcquire, E>(p);
  for (T before; seen < value; seen = before) {
    before = compare_swap<R, O, E>(p, seen, value);
    if (before == seen) break;
  }
  return seen;
}

template <Update U, Order O, Edge E, class T>
PEAL_HD void update_blind(T* p, T value) {
  update<U, Reach::kSystem, O, E>(p, value);
}

template <Order O, Edge E, class T>
PEAL_HD T add_real(T* p, T value) {
  T old;
  __atomic_load(p, &old, __ATOMIC_RELAXED);
  for (T sum = old + value;
       !__atomic_compare_exchange(p, &old, &sum, false, order_of(O), __ATOMIC_RELAXED);
       sum = old + value) {
  }
  return old;
}

inline constexpr Order kBatched = Order::kAcquire;
template <class T>
PEAL_HD T load_neighbour(const T* p) {
  return __atomic_load_n(p, __ATOMIC_ACQUIRE);
}
template <Reach R, Edge E>
PEAL_HD void fence_acquire() {}

template <Reach R, Edge E>
PEAL_HD void fence_release() {
  if constexpr (kFencesCount) __atomic_thread_fence(__ATOMIC_RELEASE);
}
// A full one: behind a quiet a load from one peer must not be ahead of a store to another.
template <Edge E>
PEAL_HD void fence_direct() {
  if constexpr (kFencesCount) __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

}  // namespace memory

inline constexpr bool kMmioMayOvertake = false;
PEAL_HD void store_mmio(uint64_t* reg, uint64_t value) {
  __atomic_store_n(reg, value, __ATOMIC_RELEASE);
}

PEAL_HD void store_line(void* where, const Line& line) {
  // Two words, so that they go from registers to the queue without a detour over the stack.
  static_cast<Line*>(where)->word[0] = line.word[0];
  static_cast<Line*>(where)->word[1] = line.word[1];
}

template <class T>
PEAL_HD T load_object(const T& object) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) % sizeof(uint64_t) == 0);
  const auto* const from = reinterpret_cast<const uint64_t*>(&object);
  uint64_t word[sizeof(T) / sizeof(uint64_t)];
  for (size_t i = 0; i < std::size(word); ++i)
    word[i] = __atomic_load_n(&from[i], __ATOMIC_RELAXED);
  T copy;
  memcpy(static_cast<void*>(&copy), word, sizeof(copy));
  return copy;
}

PEAL_HD Line load_line_direct(const void* where) {
  const auto* const words = static_cast<const uint64_t*>(where);
  return {
      {__atomic_load_n(&words[0], __ATOMIC_RELAXED), __atomic_load_n(&words[1], __ATOMIC_RELAXED)}};
}
PEAL_HD uint64_t load_stale(const uint64_t* where) {
  return __atomic_load_n(where, __ATOMIC_RELAXED);
}
PEAL_HD Line load_line_stale(const void* where) { return load_line_direct(where); }

PEAL_HD void store_line_direct(void* where, const Line& line) {
  auto* const words = static_cast<uint64_t*>(where);
  // The first word last, which readers look at first.
  __atomic_store_n(&words[1], line.word[1], __ATOMIC_RELAXED);
  __atomic_store_n(&words[0], line.word[0], __ATOMIC_RELAXED);
}

template <class Unit>
PEAL_HD Unit load_payload(const Unit* from) {
  Unit unit;
  memcpy(&unit, static_cast<const void*>(from), sizeof(unit));
  return unit;
}

template <class Unit>
PEAL_HD void store_payload(Unit* to, Unit unit) {
  *to = unit;
}

template <class Unit>
PEAL_HD Unit load_direct(const Unit* from) {
  return *const_cast<const volatile Unit*>(from);
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
