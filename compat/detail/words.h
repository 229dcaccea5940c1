// SPDX-License-Identifier: Apache-2.0
//
// Atomics on a peer's words, and waiting for words at home: by one thread of a kernel.
// nvshmem_TYPE_wait_until has a form for streams, too.
#pragma once

#include "compat/detail/process.h"

namespace peal::compat {

PEAL_HD Compare compare_of(int cmp) { return static_cast<Compare>(cmp); }

/// The words that a wait or test looks at: those whose status is 0.
template <class T>
PEAL_HD WaitSet<T> set_of(const T* ivars, size_t nelems, const int* status) {
  return {ivars, nelems, status};
}

// What a call answers of what peal's tells.
PEAL_DEVICE void answer(Status status) { keep(status); }
PEAL_DEVICE size_t answer(const WaitAny& any) {
  keep(any.status);
  return any.index;
}
PEAL_DEVICE size_t answer(const WaitSome& some) {
  keep(some.status);
  return some.count;
}
PEAL_DEVICE int answer(bool yes) { return yes ? 1 : 0; }
PEAL_DEVICE size_t answer(size_t number) { return number; }

}  // namespace peal::compat

static_assert(peal::kNone == SIZE_MAX, "what the guide's calls answer where there is no word");

// A call that answers nothing, and one that answers the word's old value.
#define PEAL_COMPAT_ATOMIC(NAME, OP, ARGUMENTS, ...)                                             \
  PEAL_COMPAT_LANE(void, nvshmem_##NAME##_atomic_##OP,                                           \
                   (void)::peal::atomic_##OP(PEAL_COMPAT_UNORDERED, PEAL_COMPAT_PASS ARGUMENTS), \
                   __VA_ARGS__)
#define PEAL_COMPAT_ATOMIC_FETCH(NAME, T, OP, ARGUMENTS, ...)                                   \
  PEAL_COMPAT_LANE(T, nvshmem_##NAME##_atomic_##OP,                                             \
                   ::peal::compat::value(                                                       \
                       ::peal::atomic_##OP(PEAL_COMPAT_UNORDERED, PEAL_COMPAT_PASS ARGUMENTS)), \
                   __VA_ARGS__)
#define PEAL_COMPAT_BY(NAME, T, OP) \
  PEAL_COMPAT_ATOMIC(NAME, OP, (dest, value, pe), T* dest, T value, int pe)
#define PEAL_COMPAT_FETCH_BY(NAME, T, OP) \
  PEAL_COMPAT_ATOMIC_FETCH(NAME, T, OP, (dest, value, pe), T* dest, T value, int pe)

#define PEAL_COMPAT_SET_AND_SWAP(NAME, T) \
  PEAL_COMPAT_BY(NAME, T, set)            \
  PEAL_COMPAT_FETCH_BY(NAME, T, swap)     \
  PEAL_COMPAT_ATOMIC_FETCH(NAME, T, fetch, (source, pe), const T* source, int pe)
#define PEAL_COMPAT_COUNT_AND_COMPARE(NAME, T)                                              \
  PEAL_COMPAT_SET_AND_SWAP(NAME, T)                                                         \
  PEAL_COMPAT_BY(NAME, T, add)                                                              \
  PEAL_COMPAT_FETCH_BY(NAME, T, fetch_add)                                                  \
  PEAL_COMPAT_ATOMIC(NAME, inc, (dest, pe), T* dest, int pe)                                \
  PEAL_COMPAT_ATOMIC_FETCH(NAME, T, fetch_inc, (dest, pe), T* dest, int pe)                 \
  PEAL_COMPAT_ATOMIC_FETCH(NAME, T, compare_swap, (dest, cond, value, pe), T* dest, T cond, \
                           T value, int pe)
#define PEAL_COMPAT_BITS(NAME, T)          \
  PEAL_COMPAT_BY(NAME, T, and)             \
  PEAL_COMPAT_BY(NAME, T, or)              \
  PEAL_COMPAT_BY(NAME, T, xor)             \
  PEAL_COMPAT_FETCH_BY(NAME, T, fetch_and) \
  PEAL_COMPAT_FETCH_BY(NAME, T, fetch_or)  \
  PEAL_COMPAT_FETCH_BY(NAME, T, fetch_xor)

// Sets a word: the guide's signals before nvshmemx_signal_op. It vouches for nothing ahead of it.
#define PEAL_COMPAT_SET_SIGNAL(NAME, T)                                                       \
  PEAL_COMPAT_LANE(void, nvshmemx_##NAME##_signal,                                            \
                   (void)::peal::atomic_set(PEAL_COMPAT_UNORDERED, dest, value, pe), T* dest, \
                   const T value, int pe)

PEAL_COMPAT_AMO_TYPES(PEAL_COMPAT_COUNT_AND_COMPARE)
PEAL_COMPAT_REAL_TYPES(PEAL_COMPAT_SET_AND_SWAP)
PEAL_COMPAT_BIT_TYPES(PEAL_COMPAT_BITS)
PEAL_COMPAT_AMO_TYPES(PEAL_COMPAT_SET_SIGNAL)

#define PEAL_COMPAT_WORDS(T) T *ivars, size_t nelems, const int *status, int cmp
#define PEAL_COMPAT_SOME_WORDS(T) \
  T *ivars, size_t nelems, size_t *indices, const int *status, int cmp
#define PEAL_COMPAT_SET ::peal::compat::set_of(ivars, nelems, status)
#define PEAL_COMPAT_CMP ::peal::compat::compare_of(cmp)

// A wait or a test, of what is in parentheses.
#define PEAL_COMPAT_LOOK(RESULT, NAME, OP, VECTOR, AT, ...)                                       \
  PEAL_COMPAT_LANE(RESULT, nvshmem_##NAME##_##OP##VECTOR,                                         \
                   ::peal::compat::answer(                                                        \
                       ::peal::OP(PEAL_COMPAT_CTX, PEAL_COMPAT_PASS AT, PEAL_COMPAT_CMP, value)), \
                   __VA_ARGS__)
#define PEAL_COMPAT_LOOK_AT(RESULT, NAME, OP, VECTOR, T, V) \
  PEAL_COMPAT_LOOK(RESULT, NAME, OP, VECTOR, (PEAL_COMPAT_SET), PEAL_COMPAT_WORDS(T), V value)
#define PEAL_COMPAT_LOOK_FOR(RESULT, NAME, OP, VECTOR, T, V)             \
  PEAL_COMPAT_LOOK(RESULT, NAME, OP, VECTOR, (PEAL_COMPAT_SET, indices), \
                   PEAL_COMPAT_SOME_WORDS(T), V value)

// V is T, or const T* where each word has a value of its own; the word for that is in the name.
#define PEAL_COMPAT_SETS(NAME, T, VECTOR, V)                        \
  PEAL_COMPAT_LOOK_AT(void, NAME, wait_until_all, VECTOR, T, V)     \
  PEAL_COMPAT_LOOK_AT(size_t, NAME, wait_until_any, VECTOR, T, V)   \
  PEAL_COMPAT_LOOK_FOR(size_t, NAME, wait_until_some, VECTOR, T, V) \
  PEAL_COMPAT_LOOK_AT(int, NAME, test_all, VECTOR, T, V)            \
  PEAL_COMPAT_LOOK_AT(size_t, NAME, test_any, VECTOR, T, V)         \
  PEAL_COMPAT_LOOK_FOR(size_t, NAME, test_some, VECTOR, T, V)

#define PEAL_COMPAT_WAITS(NAME, T)                                                               \
  PEAL_COMPAT_LOOK(void, NAME, wait_until, , (ivar), T* ivar, int cmp, T value)                  \
  PEAL_COMPAT_LOOK(int, NAME, test, , (ivar), T* ivar, int cmp, T value)                         \
  PEAL_COMPAT_SETS(NAME, T, , T)                                                                 \
  PEAL_COMPAT_SETS(NAME, T, _vector, const T*)                                                   \
  PEAL_COMPAT_ON_STREAM(NAME##_wait_until, (::peal::compat::wait_word<T>(ivar, cmp, cmp_value)), \
                        T* ivar, int cmp, T cmp_value)                                           \
  PEAL_COMPAT_ON_STREAM(NAME##_wait_until_all,                                                   \
                        (::peal::compat::wait_word<T>(ivars, cmp, cmp_value), nelems, status),   \
                        PEAL_COMPAT_WORDS(T), T cmp_value)

PEAL_COMPAT_AMO_TYPES(PEAL_COMPAT_WAITS)

PEAL_DEVICE uint64_t nvshmem_signal_fetch(uint64_t* sig_addr) {
  return ::peal::signal_fetch(PEAL_COMPAT_CTX, sig_addr);
}
PEAL_DEVICE uint64_t nvshmem_signal_wait_until(uint64_t* sig_addr, int cmp, uint64_t cmp_value) {
  return ::peal::compat::value(
      ::peal::signal_wait_until(PEAL_COMPAT_CTX, sig_addr, PEAL_COMPAT_CMP, cmp_value));
}
PEAL_COMPAT_ON_STREAM(signal_wait_until, (::peal::compat::wait_word(sig_addr, cmp, cmp_value)),
                      uint64_t* sig_addr, int cmp, uint64_t cmp_value)
