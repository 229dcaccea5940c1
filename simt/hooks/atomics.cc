// SPDX-License-Identifier: Apache-2.0
//
// What g++ calls in place of atomics. It does what was asked for, in that order or a stronger one.
//
// A read-modify-write is told twice, around it (simt/lanes/plain_access.h).
#include <cstdint>

#include "simt/hooks/tell.h"

namespace peal::simt::hooks {
namespace {

// Bits above it are hints for processors.
constexpr int kOrders = 0x7fff;

struct Atomic {
  const void* address;
  size_t bytes;
  int order;
  const void* pc;

  [[gnu::always_inline]] void tell_read() const { tell({address, bytes, false, true, order, pc}); }
  [[gnu::always_inline]] void tell_write() const { tell({address, bytes, true, true, order, pc}); }
};

template <class T>
[[gnu::always_inline]] inline Atomic atomic(const volatile T* address, int order, const void* pc) {
  return {plain(address), sizeof(T), order & kOrders, pc};
}

template <class T>
T load(const volatile T* from, int order) {
  switch (order & kOrders) {
    case __ATOMIC_RELAXED:
      return __atomic_load_n(from, __ATOMIC_RELAXED);
    case __ATOMIC_CONSUME:
    case __ATOMIC_ACQUIRE:
      return __atomic_load_n(from, __ATOMIC_ACQUIRE);
    default:
      return __atomic_load_n(from, __ATOMIC_SEQ_CST);
  }
}

template <class T>
void store(volatile T* to, T value, int order) {
  switch (order & kOrders) {
    case __ATOMIC_RELAXED:
      return __atomic_store_n(to, value, __ATOMIC_RELAXED);
    case __ATOMIC_RELEASE:
      return __atomic_store_n(to, value, __ATOMIC_RELEASE);
    default:
      return __atomic_store_n(to, value, __ATOMIC_SEQ_CST);
  }
}

// A failed one may ask for an order that the other does not have.
int joined(int order, int failure) {
  order &= kOrders;
  failure &= kOrders;
  if (order == __ATOMIC_SEQ_CST || failure == __ATOMIC_SEQ_CST) return __ATOMIC_SEQ_CST;
  if (failure == __ATOMIC_RELAXED || order == __ATOMIC_ACQ_REL) return order;
  return order == __ATOMIC_RELEASE ? __ATOMIC_ACQ_REL : __ATOMIC_ACQUIRE;
}

template <class T>
bool compare_exchange(volatile T* to, T* expected, T value, int order) {
  switch (order) {
    case __ATOMIC_RELAXED:
      return __atomic_compare_exchange_n(to, expected, value, false, __ATOMIC_RELAXED,
                                         __ATOMIC_RELAXED);
    case __ATOMIC_CONSUME:
    case __ATOMIC_ACQUIRE:
      return __atomic_compare_exchange_n(to, expected, value, false, __ATOMIC_ACQUIRE,
                                         __ATOMIC_ACQUIRE);
    case __ATOMIC_RELEASE:
      return __atomic_compare_exchange_n(to, expected, value, false, __ATOMIC_RELEASE,
                                         __ATOMIC_RELAXED);
    case __ATOMIC_ACQ_REL:
      return __atomic_compare_exchange_n(to, expected, value, false, __ATOMIC_ACQ_REL,
                                         __ATOMIC_ACQUIRE);
    default:
      return __atomic_compare_exchange_n(to, expected, value, false, __ATOMIC_SEQ_CST,
                                         __ATOMIC_SEQ_CST);
  }
}

}  // namespace
}  // namespace peal::simt::hooks

using peal::simt::hooks::Atomic;
using peal::simt::hooks::atomic;

#define PEAL_UPDATE_HOOK(bits, name, builtin)                                                    \
  uint##bits##_t __tsan_atomic##bits##_##name(volatile uint##bits##_t* to, uint##bits##_t value, \
                                              int order) {                                       \
    const Atomic access = atomic(to, order, PEAL_HOOK_PC);                                       \
    access.tell_write();                                                                         \
    uint##bits##_t old;                                                                          \
    switch (access.order) {                                                                      \
      case __ATOMIC_RELAXED:                                                                     \
        old = builtin(to, value, __ATOMIC_RELAXED);                                              \
        break;                                                                                   \
      case __ATOMIC_CONSUME:                                                                     \
      case __ATOMIC_ACQUIRE:                                                                     \
        old = builtin(to, value, __ATOMIC_ACQUIRE);                                              \
        break;                                                                                   \
      case __ATOMIC_RELEASE:                                                                     \
        old = builtin(to, value, __ATOMIC_RELEASE);                                              \
        break;                                                                                   \
      case __ATOMIC_ACQ_REL:                                                                     \
        old = builtin(to, value, __ATOMIC_ACQ_REL);                                              \
        break;                                                                                   \
      default:                                                                                   \
        old = builtin(to, value, __ATOMIC_SEQ_CST);                                              \
        break;                                                                                   \
    }                                                                                            \
    access.tell_read();                                                                          \
    return old;                                                                                  \
  }

#define PEAL_COMPARE_HOOK(bits, name)                                                          \
  bool __tsan_atomic##bits##_compare_exchange_##name(                                          \
      volatile uint##bits##_t* to, uint##bits##_t* expected, uint##bits##_t value, int order,  \
      int failure) {                                                                           \
    const Atomic access = atomic(to, peal::simt::hooks::joined(order, failure), PEAL_HOOK_PC); \
    access.tell_write();                                                                       \
    const bool done = peal::simt::hooks::compare_exchange(to, expected, value, access.order);  \
    access.tell_read();                                                                        \
    return done;                                                                               \
  }

#define PEAL_ATOMIC_HOOKS(bits)                                                                    \
  uint##bits##_t __tsan_atomic##bits##_load(const volatile uint##bits##_t* from, int order) {      \
    const uint##bits##_t value = peal::simt::hooks::load(from, order);                             \
    atomic(from, order, PEAL_HOOK_PC).tell_read();                                                 \
    return value;                                                                                  \
  }                                                                                                \
  void __tsan_atomic##bits##_store(volatile uint##bits##_t* to, uint##bits##_t value, int order) { \
    atomic(to, order, PEAL_HOOK_PC).tell_write();                                                  \
    peal::simt::hooks::store(to, value, order);                                                    \
  }                                                                                                \
  PEAL_UPDATE_HOOK(bits, exchange, __atomic_exchange_n)                                            \
  PEAL_UPDATE_HOOK(bits, fetch_add, __atomic_fetch_add)                                            \
  PEAL_UPDATE_HOOK(bits, fetch_sub, __atomic_fetch_sub)                                            \
  PEAL_UPDATE_HOOK(bits, fetch_and, __atomic_fetch_and)                                            \
  PEAL_UPDATE_HOOK(bits, fetch_or, __atomic_fetch_or)                                              \
  PEAL_UPDATE_HOOK(bits, fetch_xor, __atomic_fetch_xor)                                            \
  PEAL_UPDATE_HOOK(bits, fetch_nand, __atomic_fetch_nand)                                          \
  PEAL_COMPARE_HOOK(bits, strong)                                                                  \
  PEAL_COMPARE_HOOK(bits, weak)

extern "C" {

PEAL_ATOMIC_HOOKS(8)
PEAL_ATOMIC_HOOKS(16)
PEAL_ATOMIC_HOOKS(32)
PEAL_ATOMIC_HOOKS(64)

// Told behind it: an acquire fence has taken effect then, and what a release fence is for is still
// to be stored.
void __tsan_atomic_thread_fence(int order) {
  const Atomic fence = {nullptr, 0, order & peal::simt::hooks::kOrders, PEAL_HOOK_PC};
  switch (fence.order) {
    case __ATOMIC_RELAXED:
      return;
    case __ATOMIC_CONSUME:
    case __ATOMIC_ACQUIRE:
      __atomic_thread_fence(__ATOMIC_ACQUIRE);
      break;
    case __ATOMIC_RELEASE:
      __atomic_thread_fence(__ATOMIC_RELEASE);
      break;
    case __ATOMIC_ACQ_REL:
      __atomic_thread_fence(__ATOMIC_ACQ_REL);
      break;
    default:
      __atomic_thread_fence(__ATOMIC_SEQ_CST);
      break;
  }
  fence.tell_read();
}

// Between a thread and its own signal handlers; nobody needs to hear of it.
void __tsan_atomic_signal_fence(int) { __atomic_signal_fence(__ATOMIC_SEQ_CST); }

}  // extern "C"
