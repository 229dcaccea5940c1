// SPDX-License-Identifier: Apache-2.0
//
// order.h on a GPU: PTX memory operations with explicit scope, for 4- and 8-byte unsigned words.
// Scope, order and operation are names that the compiler writes into the instruction (constraint
// "C").
#pragma once

#include "device/base/access.h"
#include "device/base/edge.h"

namespace peal {
namespace memory {

/// How PTX spells a Reach, an Order, an Update.
template <auto kWhat>
struct Spelled;
#define PEAL_SPELLED(what, ptx)                \
  template <>                                  \
  struct Spelled<what> {                       \
    static constexpr const char kText[] = ptx; \
  };
PEAL_SPELLED(Reach::kBlock, "cta")  // may lie in shared memory; what others reach is global
PEAL_SPELLED(Reach::kGpu, "gpu.global")
PEAL_SPELLED(Reach::kSystem, "sys.global")
PEAL_SPELLED(Order::kRelaxed, "relaxed")
PEAL_SPELLED(Order::kAcquire, "acquire")
PEAL_SPELLED(Order::kRelease, "release")
PEAL_SPELLED(Order::kBoth, "acq_rel")
PEAL_SPELLED(sizeof(uint32_t), "32")
PEAL_SPELLED(sizeof(uint64_t), "64")
PEAL_SPELLED(Update::kAdd, "add.u")
PEAL_SPELLED(Update::kAnd, "and.b")
PEAL_SPELLED(Update::kOr, "or.b")
PEAL_SPELLED(Update::kXor, "xor.b")
PEAL_SPELLED(Update::kSwap, "exch.b")
PEAL_SPELLED(Update::kRaise, "max.u")
#undef PEAL_SPELLED

#define PEAL_TEXT(what) "C"(Spelled<what>::kText)
// One statement for words of 4 bytes and one for words of 8, whose registers are "r" and "l".
#define PEAL_PTX(statement)        \
  if constexpr (sizeof(T) == 4) {  \
    statement("r");                \
  } else {                         \
    static_assert(sizeof(T) == 8); \
    statement("l");                \
  }

template <Reach R, Order O, Edge E, class T>
PEAL_HD T load(const T* p) {
  if constexpr (R == Reach::kLane) {
    return *p;
  } else {
    T value;
#define PEAL_LOAD(reg)                                                    \
  asm volatile("ld.%2.%3.b%4 %0, [%1];"                                   \
               : "=" reg(value)                                           \
               : "l"(p), PEAL_TEXT(O), PEAL_TEXT(R), PEAL_TEXT(sizeof(T)) \
               : "memory")
    PEAL_PTX(PEAL_LOAD)
    return value;
  }
}

template <Reach R, Order O, Edge E, class T>
PEAL_HD void store(T* p, T value) {
  if constexpr (R == Reach::kLane) {
    *p = value;
  } else {
#define PEAL_STORE(reg)                                                                   \
  asm volatile("st.%2.%3.b%4 [%0], %1;" ::"l"(p), reg(value), PEAL_TEXT(O), PEAL_TEXT(R), \
               PEAL_TEXT(sizeof(T))                                                       \
               : "memory")
    PEAL_PTX(PEAL_STORE)
  }
}

template <Reach R, Order O, Edge E, class T>
PEAL_HD T compare_swap(T* p, T expected, T desired) {
  T old;
  if constexpr (R == Reach::kLane) {
    old = *p;
    if (old == expected) *p = desired;
  } else {
#define PEAL_CAS(reg)                                                             \
  asm volatile("atom.%4.%5.cas.b%6 %0, [%1], %2, %3;"                             \
               : "=" reg(old)                                                     \
               : "l"(p), reg(expected), reg(desired), PEAL_TEXT(O), PEAL_TEXT(R), \
                 PEAL_TEXT(sizeof(T))                                             \
               : "memory")
    PEAL_PTX(PEAL_CAS)
  }
  return old;
}

template <Update U, Reach R, Order O, Edge E, class T>
PEAL_HD T update(T* p, T value) {
  T old;
  if constexpr (R == Reach::kLane) {
    old = *p;
    if (U != Update::kRaise || old < value) *p = updated<U>(old, value);
  } else {
#define PEAL_ATOM(reg)                                                         \
  asm volatile("atom.%3.%4.%5%6 %0, [%1], %2;"                                 \
               : "=" reg(old)                                                  \
               : "l"(p), reg(value), PEAL_TEXT(O), PEAL_TEXT(R), PEAL_TEXT(U), \
                 PEAL_TEXT(sizeof(T))                                          \
               : "memory")
    PEAL_PTX(PEAL_ATOM)
  }
  return old;
}

template <Update U, Order O, Edge E, class T>
PEAL_HD void update_blind(T* p, T value) {
#define PEAL_RED(reg)                                                                 \
  asm volatile("red.%2.sys.global.%3%4 [%0], %1;" ::"l"(p), reg(value), PEAL_TEXT(O), \
               PEAL_TEXT(U), PEAL_TEXT(sizeof(T))                                     \
               : "memory")
  PEAL_PTX(PEAL_RED)
}

template <Order O, Edge E, class T>
PEAL_HD T add_real(T* p, T value) {
  T old;
  if constexpr (sizeof(T) == 4) {
    asm volatile("atom.%3.sys.global.add.f32 %0, [%1], %2;"
                 : "=f"(old)
                 : "l"(p), "f"(value), PEAL_TEXT(O)
                 : "memory");
  } else {
    asm volatile("atom.%3.sys.global.add.f64 %0, [%1], %2;"
                 : "=d"(old)
                 : "l"(p), "d"(value), PEAL_TEXT(O)
                 : "memory");
  }
  return old;
}

#undef PEAL_LOAD
#undef PEAL_STORE
#undef PEAL_CAS
#undef PEAL_ATOM
#undef PEAL_RED
#undef PEAL_PTX
#undef PEAL_TEXT

// Fences that only release leave the multiprocessor's cache alone; those that only acquire wait for
// no stores. Older compilers know neither.
#if __CUDACC_VER_MAJOR__ * 100 + __CUDACC_VER_MINOR__ >= 1208 && __CUDA_ARCH__ >= 900
#define PEAL_PTX_RELEASE "fence.release"
#define PEAL_PTX_ACQUIRE "fence.acquire"
#else
#define PEAL_PTX_RELEASE "fence.acq_rel"
#define PEAL_PTX_ACQUIRE "fence.acq_rel"
#endif

inline constexpr Order kBatched = Order::kRelaxed;
// Beyond PTX's memory model, which calls a weak load beside another's store a race: an acquire
// empties the multiprocessor's cache (CCTL.IVALL), so that a line in there was loaded behind it,
// and a word of 4 bytes is loaded whole.
PEAL_HD uint32_t load_neighbour(const uint32_t* p) {
  uint32_t value;
  asm volatile("ld.weak.global.b32 %0, [%1];" : "=r"(value) : "l"(p) : "memory");
  return value;
}
template <Reach R, Edge E>
PEAL_HD void fence_acquire() {
  if constexpr (R == Reach::kBlock) asm volatile(PEAL_PTX_ACQUIRE ".cta;" ::: "memory");
  if constexpr (R == Reach::kGpu) asm volatile(PEAL_PTX_ACQUIRE ".gpu;" ::: "memory");
  if constexpr (R == Reach::kSystem) asm volatile(PEAL_PTX_ACQUIRE ".sys;" ::: "memory");
}

// With GPU scope the writes have reached this GPU's second-level cache, which is where a NIC that
// reads this GPU's memory reads them.
template <Reach R, Edge E>
PEAL_HD void fence_release() {
  if constexpr (R == Reach::kGpu) asm volatile(PEAL_PTX_RELEASE ".gpu;" ::: "memory");
  if constexpr (R == Reach::kSystem) asm volatile(PEAL_PTX_RELEASE ".sys;" ::: "memory");
}
#undef PEAL_PTX_RELEASE
#undef PEAL_PTX_ACQUIRE
template <Edge E>
PEAL_HD void fence_direct() {
  fence_release<Reach::kSystem, E>();
}

}  // namespace memory

inline constexpr bool kMmioMayOvertake = true;
PEAL_HD void store_mmio(uint64_t* reg, uint64_t value) {
  // Never merged or dropped, and behind this lane's earlier stores in program order only: a fence
  // would cost as much as the rest of a put.
  asm volatile("st.mmio.relaxed.sys.global.b64 [%0], %1;" ::"l"(reg), "l"(value) : "memory");
}

PEAL_HD void store_line(void* where, const Line& line) {
  asm volatile("st.global.v2.b64 [%0], {%1, %2};" ::"l"(where), "l"(line.word[0]), "l"(line.word[1])
               : "memory");
}

template <class T>
PEAL_HD T load_object(const T& object) {
  return object;
}

PEAL_HD Line load_line_direct(const void* where) {
  Line line;
  asm volatile("ld.relaxed.sys.global.L1::no_allocate.v2.b64 {%0, %1}, [%2];"
               : "=l"(line.word[0]), "=l"(line.word[1])
               : "l"(where)
               : "memory");
  return line;
}

PEAL_HD uint64_t load_stale(const uint64_t* where) {
  uint64_t word;
  asm volatile("ld.weak.global.b64 %0, [%1];" : "=l"(word) : "l"(where));
  return word;
}

PEAL_HD Line load_line_stale(const void* where) {
  Line line;
  asm volatile("ld.weak.global.v2.b64 {%0, %1}, [%2];"
               : "=l"(line.word[0]), "=l"(line.word[1])
               : "l"(where));
  return line;
}

PEAL_HD void store_line_direct(void* where, const Line& line) {
  asm volatile("st.relaxed.sys.global.v2.b64 [%0], {%1, %2};" ::"l"(where), "l"(line.word[0]),
               "l"(line.word[1])
               : "memory");
}

template <class Unit>
PEAL_HD Unit load_payload(const Unit* from) {
  return *from;
}

template <class Unit>
PEAL_HD void store_payload(Unit* to, Unit unit) {
  *to = unit;
}

template <class Unit>
PEAL_HD Unit load_direct(const Unit* from) {
  return *const_cast<const volatile Unit*>(from);
}

}  // namespace peal
