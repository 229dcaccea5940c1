// SPDX-License-Identifier: Apache-2.0
//
// CUDA's atomics on 16 bytes, of any type of that size and alignment; and atomicCAS on two.
#pragma once

#include <cstring>
#include <type_traits>

#include "simt/runtime/cuda_names.h"

namespace peal::simt::cuda {

using Uint128 = unsigned __int128;

/// Puts `value` there if `compare` was there; answers what was.
Uint128 compare_and_swap(Uint128* address, Uint128 compare, Uint128 value);

template <class T>
concept Wide = sizeof(T) == 16 && alignof(T) >= 16 && std::is_trivially_copyable_v<T>;

template <Wide T>
Uint128 to_wide_bits(const T& value) {
  Uint128 bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}
template <Wide T>
T from_wide_bits(Uint128 bits) {
  T value;
  std::memcpy(static_cast<void*>(&value), &bits, sizeof value);
  return value;
}

}  // namespace peal::simt::cuda

template <peal::simt::cuda::Wide T>
T atomicCAS(T* address, std::type_identity_t<T> compare, std::type_identity_t<T> value) {
  using namespace peal::simt::cuda;
  peal::simt::breathe();
  return from_wide_bits<T>(compare_and_swap(reinterpret_cast<Uint128*>(address),
                                            to_wide_bits(compare), to_wide_bits(value)));
}

template <peal::simt::cuda::Wide T>
T atomicExch(T* address, std::type_identity_t<T> value) {
  using namespace peal::simt::cuda;
  peal::simt::breathe();
  auto* const word = reinterpret_cast<Uint128*>(address);
  const Uint128 next = to_wide_bits(value);
  Uint128 seen = 0, was = 0;
  while ((was = compare_and_swap(word, seen, next)) != seen) seen = was;
  return from_wide_bits<T>(was);
}

template <class T>
requires std::is_same_v<T, unsigned short> T atomicCAS(T* address, std::type_identity_t<T> compare,
                                                       std::type_identity_t<T> value) {
  peal::simt::breathe();
  std::atomic_ref<T>(*address).compare_exchange_strong(compare, value, std::memory_order_relaxed);
  return compare;
}
