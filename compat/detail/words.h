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

PEAL_DEVICE size_t index_of(const WaitAny& any) {
  keep(any.status);
  return any.index;
}
PEAL_DEVICE size_t count_of(const WaitSome& some) {
  keep(some.status);
  return some.count;
}

}  // namespace peal::compat

static_assert(peal::kNone == SIZE_MAX, "what the guide's calls answer where there is no word");

// A call that answers nothing, and one that answers the word's old value.
#define PEAL_COMPAT_ATOMIC(NAME, T, OP)                                                      \
  PEAL_COMPAT_LAZY PEAL_DEVICE void nvshmem_##NAME##_atomic_##OP(T* dest, T value, int pe) { \
    (void)::peal::atomic_##OP(::peal::compat::context(), dest, value, pe);                   \
  }
#define PEAL_COMPAT_ATOMIC_FETCH(NAME, T, OP)                                                      \
  PEAL_COMPAT_LAZY PEAL_DEVICE T nvshmem_##NAME##_atomic_##OP(T* dest, T value, int pe) {          \
    return ::peal::compat::value(::peal::atomic_##OP(::peal::compat::context(), dest, value, pe)); \
  }
#define PEAL_COMPAT_SET_AND_SWAP(NAME, T)                                                      \
  PEAL_COMPAT_ATOMIC(NAME, T, set)                                                             \
  PEAL_COMPAT_ATOMIC_FETCH(NAME, T, swap)                                                      \
  PEAL_COMPAT_LAZY PEAL_DEVICE T nvshmem_##NAME##_atomic_fetch(const T* source, int pe) {      \
    return ::peal::compat::value(::peal::atomic_fetch(::peal::compat::context(), source, pe)); \
  }
#define PEAL_COMPAT_COUNT_AND_COMPARE(NAME, T)                                                   \
  PEAL_COMPAT_SET_AND_SWAP(NAME, T)                                                              \
  PEAL_COMPAT_ATOMIC(NAME, T, add)                                                               \
  PEAL_COMPAT_ATOMIC_FETCH(NAME, T, fetch_add)                                                   \
  PEAL_COMPAT_LAZY PEAL_DEVICE void nvshmem_##NAME##_atomic_inc(T* dest, int pe) {               \
    (void)::peal::atomic_inc(::peal::compat::context(), dest, pe);                               \
  }                                                                                              \
  PEAL_COMPAT_LAZY PEAL_DEVICE T nvshmem_##NAME##_atomic_fetch_inc(T* dest, int pe) {            \
    return ::peal::compat::value(::peal::atomic_fetch_inc(::peal::compat::context(), dest, pe)); \
  }                                                                                              \
  PEAL_COMPAT_LAZY PEAL_DEVICE T nvshmem_##NAME##_atomic_compare_swap(T* dest, T cond, T value,  \
                                                                      int pe) {                  \
    return ::peal::compat::value(                                                                \
        ::peal::atomic_compare_swap(::peal::compat::context(), dest, cond, value, pe));          \
  }
#define PEAL_COMPAT_BITS(NAME, T)              \
  PEAL_COMPAT_ATOMIC(NAME, T, and)             \
  PEAL_COMPAT_ATOMIC(NAME, T, or)              \
  PEAL_COMPAT_ATOMIC(NAME, T, xor)             \
  PEAL_COMPAT_ATOMIC_FETCH(NAME, T, fetch_and) \
  PEAL_COMPAT_ATOMIC_FETCH(NAME, T, fetch_or)  \
  PEAL_COMPAT_ATOMIC_FETCH(NAME, T, fetch_xor)

// Sets a word: the guide's signals before nvshmemx_signal_op. It vouches for nothing ahead of it.
#define PEAL_COMPAT_SET_SIGNAL(NAME, T)                                                        \
  PEAL_COMPAT_LAZY PEAL_DEVICE void nvshmemx_##NAME##_signal(T* dest, const T value, int pe) { \
    (void)::peal::atomic_set(::peal::compat::context(), dest, value, pe);                      \
  }

PEAL_COMPAT_AMO_TYPES(PEAL_COMPAT_COUNT_AND_COMPARE)
PEAL_COMPAT_REAL_TYPES(PEAL_COMPAT_SET_AND_SWAP)
PEAL_COMPAT_BIT_TYPES(PEAL_COMPAT_BITS)
PEAL_COMPAT_AMO_TYPES(PEAL_COMPAT_SET_SIGNAL)

#define PEAL_COMPAT_WORDS(T) T *ivars, size_t nelems, const int *status, int cmp
#define PEAL_COMPAT_SOME_WORDS(T) \
  T *ivars, size_t nelems, size_t *indices, const int *status, int cmp
#define PEAL_COMPAT_SET ::peal::compat::set_of(ivars, nelems, status)
#define PEAL_COMPAT_CMP ::peal::compat::compare_of(cmp)

// V is T, or const T* where each word has a value of its own; the word for that is in the name.
#define PEAL_COMPAT_SETS(NAME, T, VECTOR, V)                                                       \
  PEAL_COMPAT_LAZY PEAL_DEVICE void nvshmem_##NAME##_wait_until_all##VECTOR(PEAL_COMPAT_WORDS(T),  \
                                                                            V value) {             \
    ::peal::compat::keep(::peal::wait_until_all(::peal::compat::context(), PEAL_COMPAT_SET,        \
                                                PEAL_COMPAT_CMP, value));                          \
  }                                                                                                \
  PEAL_COMPAT_LAZY PEAL_DEVICE size_t nvshmem_##NAME##_wait_until_any##VECTOR(                     \
      PEAL_COMPAT_WORDS(T), V value) {                                                             \
    return ::peal::compat::index_of(::peal::wait_until_any(                                        \
        ::peal::compat::context(), PEAL_COMPAT_SET, PEAL_COMPAT_CMP, value));                      \
  }                                                                                                \
  PEAL_COMPAT_LAZY PEAL_DEVICE size_t nvshmem_##NAME##_wait_until_some##VECTOR(                    \
      PEAL_COMPAT_SOME_WORDS(T), V value) {                                                        \
    return ::peal::compat::count_of(::peal::wait_until_some(                                       \
        ::peal::compat::context(), PEAL_COMPAT_SET, indices, PEAL_COMPAT_CMP, value));             \
  }                                                                                                \
  PEAL_COMPAT_LAZY PEAL_DEVICE int nvshmem_##NAME##_test_all##VECTOR(PEAL_COMPAT_WORDS(T),         \
                                                                     V value) {                    \
    return ::peal::test_all(::peal::compat::context(), PEAL_COMPAT_SET, PEAL_COMPAT_CMP, value)    \
               ? 1                                                                                 \
               : 0;                                                                                \
  }                                                                                                \
  PEAL_COMPAT_LAZY PEAL_DEVICE size_t nvshmem_##NAME##_test_any##VECTOR(PEAL_COMPAT_WORDS(T),      \
                                                                        V value) {                 \
    return ::peal::test_any(::peal::compat::context(), PEAL_COMPAT_SET, PEAL_COMPAT_CMP, value);   \
  }                                                                                                \
  PEAL_COMPAT_LAZY PEAL_DEVICE size_t nvshmem_##NAME##_test_some##VECTOR(                          \
      PEAL_COMPAT_SOME_WORDS(T), V value) {                                                        \
    return ::peal::test_some(::peal::compat::context(), PEAL_COMPAT_SET, indices, PEAL_COMPAT_CMP, \
                             value);                                                               \
  }

#define PEAL_COMPAT_WAITS(NAME, T)                                                               \
  PEAL_COMPAT_LAZY PEAL_DEVICE void nvshmem_##NAME##_wait_until(T* ivar, int cmp, T cmp_value) { \
    ::peal::compat::keep(                                                                        \
        ::peal::wait_until(::peal::compat::context(), ivar, PEAL_COMPAT_CMP, cmp_value));        \
  }                                                                                              \
  PEAL_COMPAT_LAZY PEAL_DEVICE int nvshmem_##NAME##_test(T* ivar, int cmp, T cmp_value) {        \
    return ::peal::test(::peal::compat::context(), ivar, PEAL_COMPAT_CMP, cmp_value) ? 1 : 0;    \
  }                                                                                              \
  PEAL_COMPAT_SETS(NAME, T, , T)                                                                 \
  PEAL_COMPAT_SETS(NAME, T, _vector, const T*)                                                   \
  PEAL_COMPAT_LAZY inline int nvshmemx_##NAME##_wait_until_on_stream(                            \
      T* ivar, int cmp, T cmp_value, cudaStream_t stream) {                                      \
    return ::peal::compat::make(                                                                 \
        ::peal::compat::in_order("nvshmemx_" #NAME "_wait_until_on_stream", stream),             \
        ::peal::compat::wait_word<T>(ivar, cmp, cmp_value));                                     \
  }                                                                                              \
  PEAL_COMPAT_LAZY inline int nvshmemx_##NAME##_wait_until_all_on_stream(                        \
      PEAL_COMPAT_WORDS(T), T cmp_value, cudaStream_t stream) {                                  \
    return ::peal::compat::wait_for_all(                                                         \
        ::peal::compat::in_order("nvshmemx_" #NAME "_wait_until_all_on_stream", stream),         \
        ::peal::compat::wait_word<T>(ivars, cmp, cmp_value), nelems, status);                    \
  }

PEAL_COMPAT_AMO_TYPES(PEAL_COMPAT_WAITS)

PEAL_DEVICE uint64_t nvshmem_signal_fetch(uint64_t* sig_addr) {
  return ::peal::signal_fetch(::peal::compat::context(), sig_addr);
}
PEAL_DEVICE uint64_t nvshmem_signal_wait_until(uint64_t* sig_addr, int cmp, uint64_t cmp_value) {
  return ::peal::compat::value(
      ::peal::signal_wait_until(::peal::compat::context(), sig_addr, PEAL_COMPAT_CMP, cmp_value));
}
inline int nvshmemx_signal_wait_until_on_stream(uint64_t* sig_addr, int cmp, uint64_t cmp_value,
                                                cudaStream_t stream) {
  return ::peal::compat::make(
      ::peal::compat::in_order("nvshmemx_signal_wait_until_on_stream", stream),
      ::peal::compat::wait_word(sig_addr, cmp, cmp_value));
}
