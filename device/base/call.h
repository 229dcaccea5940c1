// SPDX-License-Identifier: Apache-2.0
//
// Calls of what is off the fast path, and what they cost the kernel around.
//
// ptxas gives a function that it sees called the registers that the caller leaves: along a chain of
// calls the registers of all that is needed behind them add up, and a kernel with a rare, large
// callee keeps its loop variables on the stack, where with 32 warps each of those costs 32 cycles a
// turn. Two remedies:
//
//   call_cold<&f>()  calls through a pointer, by convention: the callee saves what it uses, when
//                    called. The kernel has the registers of the largest such callee, or its own.
//                    ptxas compiles every function that is called so once more for every kernel
//                    that calls any
//   parked(),        keep what is needed behind a call in memory, and so not in registers, while it
//   in_memory()      lasts
//
// In relocatable code (-rdc=true) all calls are by convention, a function is compiled once, and a
// kernel has the registers of the largest function that it may come to. There call_cold() and
// call_apart() hold their callees, and what these call, to kHeldRegisters: two blocks of 1,024
// threads then share a multiprocessor, as they do of a program that calls NVSHMEM's library.
//
// No operation may take more than 64 registers: with more, blocks of 1,024 threads do not start
// (tests/gpu/registers_test.py).
#pragma once

#include <cstring>
#include <type_traits>

#include "device/base/target.h"

namespace peal {

/// Whether a function that is rarely called lets lanes post together. In relocatable code there is
/// that variant only, for which a lane alone is a group of one.
template <bool kTogether>
inline constexpr bool kRarelyTogether = PEAL_RELOCATABLE || kTogether;

#if PEAL_RELOCATABLE

namespace detail {

inline constexpr int kHeldRegisters = 32;

/// Is never launched. ptxas gives a function with internal linkage no more registers than a kernel
/// that calls it may have.
template <auto kFunction, class... Arguments>
__global__ void __maxnreg__(kHeldRegisters) hold_registers(Arguments... arguments) {
  (void)kFunction(arguments...);
}

}  // namespace detail

/// Calls a PEAL_DEVICE_COLD function, which takes no registers from a kernel in relocatable code.
template <auto kFunction, class... Arguments>
PEAL_DEVICE auto call_apart(Arguments... arguments) {
  if (false) (void)&detail::hold_registers<kFunction, Arguments...>;  // makes it
  return kFunction(arguments...);
}
template <auto kFunction, class... Arguments>
PEAL_DEVICE auto call_cold(Arguments... arguments) {
  return call_apart<kFunction>(arguments...);
}

#else

template <auto kFunction, class... Arguments>
PEAL_DEVICE auto call_apart(Arguments... arguments) {
  return kFunction(arguments...);
}

/// Calls a PEAL_DEVICE_COLD function, so that the kernel around pays only when it happens.
template <auto kFunction, class... Arguments>
PEAL_DEVICE auto call_cold(Arguments... arguments) {
  auto* function = kFunction;
#if PEAL_ON_GPU
  asm volatile("" : "+l"(function));  // the compiler shall not know which function it is
#endif
  return function(arguments...);
}

#endif

/// The object is in memory here, and the compiler does not know what it is.
PEAL_HD void in_memory([[maybe_unused]] const void* object) {
#if PEAL_ON_GPU
  asm volatile("" ::"l"(object) : "memory");
#endif
}

#if PEAL_ON_GPU

namespace detail {

/// Values while they are in memory: of types that cannot be assigned, such as lambdas, too.
template <class... Values>
struct Cells {
  PEAL_HD void take() {}
  PEAL_HD void give() const {}
};
template <class First, class... Rest>
struct Cells<First, Rest...> {
  static_assert(std::is_trivially_copyable_v<First>);
  alignas(First) unsigned char bytes[sizeof(First)];
  Cells<Rest...> others;

  PEAL_HD void take(const First& first, const Rest&... rest) {
    memcpy(bytes, static_cast<const void*>(&first), sizeof(First));
    others.take(rest...);
  }
  PEAL_HD void give(First& first, Rest&... rest) const {
    memcpy(static_cast<void*>(&first), bytes, sizeof(First));
    others.give(rest...);
  }
};

}  // namespace detail

/// Calls `rare`; while it runs the values are in memory.
template <class Rare, class... Values>
PEAL_HD auto parked(const Rare& rare, Values&... values) {
  detail::Cells<Values...> cells;
  cells.take(values...);
  in_memory(&cells);
  const auto answer = rare();
  in_memory(&cells);
  cells.give(values...);
  return answer;
}

#else

template <class Rare, class... Values>
PEAL_HD auto parked(const Rare& rare, Values&...) {
  return rare();
}

#endif

}  // namespace peal
