// SPDX-License-Identifier: Apache-2.0
//
// CUDA's functions of kernels that cuda_names.h has not: reductions of a warp, loads and stores
// with a cache hint, atomics with a scope, the trap.
#pragma once

#include <bit>
#include <type_traits>

#include "simt/runtime/cuda_names.h"
#include "simt/runtime/wide_atomics.h"

namespace peal::simt::cuda {

/// Ends the launch with an Error that names block and thread.
[[noreturn]] void trap();

/// `combine` over the values of the lanes of `mask`, the same for each of them.
template <Word T, class Combine>
T reduce_lanes(unsigned mask, T value, Combine combine) {
  unsigned others = mask & warp_mask();
  T result = value;
  for (bool first = true; others != 0; others &= others - 1, first = false) {
    const T other = shuffle(mask, value, static_cast<unsigned>(std::countr_zero(others)));
    result = first ? other : combine(result, other);
  }
  return result;
}

/// Words are read and written at once: kernels signal each other so.
template <class T>
T load_past_cache(const T* address) {
  breathe();
  if constexpr (Word<T>) {
    T value;
    __atomic_load(const_cast<T*>(address), &value, __ATOMIC_RELAXED);
    return value;
  } else {
    return *address;
  }
}
template <class T>
void store_past_cache(T* address, T value) {
  if constexpr (Word<T>) {
    __atomic_store(address, &value, __ATOMIC_RELAXED);
  } else {
    *address = value;
  }
}

template <class T>
concept Int = std::is_same_v<T, int> || std::is_same_v<T, unsigned>;

}  // namespace peal::simt::cuda

[[noreturn]] inline void __trap() { peal::simt::cuda::trap(); }

// ---- reductions

template <peal::simt::cuda::Int T>
T __reduce_add_sync(unsigned mask, T value) {
  return static_cast<T>(peal::simt::cuda::reduce_lanes(
      mask, static_cast<unsigned>(value), [](unsigned a, unsigned b) { return a + b; }));
}
template <peal::simt::cuda::Int T>
T __reduce_min_sync(unsigned mask, T value) {
  return peal::simt::cuda::reduce_lanes(mask, value, [](T a, T b) { return b < a ? b : a; });
}
template <peal::simt::cuda::Int T>
T __reduce_max_sync(unsigned mask, T value) {
  return peal::simt::cuda::reduce_lanes(mask, value, [](T a, T b) { return a < b ? b : a; });
}
inline unsigned __reduce_and_sync(unsigned mask, unsigned value) {
  return peal::simt::cuda::reduce_lanes(mask, value, [](unsigned a, unsigned b) { return a & b; });
}
inline unsigned __reduce_or_sync(unsigned mask, unsigned value) {
  return peal::simt::cuda::reduce_lanes(mask, value, [](unsigned a, unsigned b) { return a | b; });
}
inline unsigned __reduce_xor_sync(unsigned mask, unsigned value) {
  return peal::simt::cuda::reduce_lanes(mask, value, [](unsigned a, unsigned b) { return a ^ b; });
}

// ---- loads and stores with a hint, which means nothing here; those past the first cache are what
// kernels spin on, so they let others run

template <class T>
T __ldg(const T* address) {
  return *address;
}
template <class T>
T __ldca(const T* address) {
  return *address;
}
template <class T>
T __ldcs(const T* address) {
  return *address;
}
template <class T>
T __ldlu(const T* address) {
  return *address;
}
template <class T>
T __ldcg(const T* address) {
  return peal::simt::cuda::load_past_cache(address);
}
template <class T>
T __ldcv(const T* address) {
  return peal::simt::cuda::load_past_cache(address);
}
template <class T>
void __stwb(T* address, std::type_identity_t<T> value) {
  *address = value;
}
template <class T>
void __stcg(T* address, std::type_identity_t<T> value) {
  peal::simt::cuda::store_past_cache(address, value);
}
template <class T>
void __stcs(T* address, std::type_identity_t<T> value) {
  *address = value;
}
template <class T>
void __stwt(T* address, std::type_identity_t<T> value) {
  peal::simt::cuda::store_past_cache(address, value);
}

// ---- atomics of a block, of the system: here one and the same

#define PEAL_SIMT_SCOPED_ATOMIC(NAME)                                      \
  template <class T, class... Values>                                      \
  auto NAME##_block(T* address, Values... values) {                        \
    return NAME(address, static_cast<std::type_identity_t<T>>(values)...); \
  }                                                                        \
  template <class T, class... Values>                                      \
  auto NAME##_system(T* address, Values... values) {                       \
    return NAME(address, static_cast<std::type_identity_t<T>>(values)...); \
  }
PEAL_SIMT_SCOPED_ATOMIC(atomicAdd)
PEAL_SIMT_SCOPED_ATOMIC(atomicSub)
PEAL_SIMT_SCOPED_ATOMIC(atomicExch)
PEAL_SIMT_SCOPED_ATOMIC(atomicCAS)
PEAL_SIMT_SCOPED_ATOMIC(atomicMin)
PEAL_SIMT_SCOPED_ATOMIC(atomicMax)
PEAL_SIMT_SCOPED_ATOMIC(atomicInc)
PEAL_SIMT_SCOPED_ATOMIC(atomicDec)
PEAL_SIMT_SCOPED_ATOMIC(atomicAnd)
PEAL_SIMT_SCOPED_ATOMIC(atomicOr)
PEAL_SIMT_SCOPED_ATOMIC(atomicXor)
#undef PEAL_SIMT_SCOPED_ATOMIC
