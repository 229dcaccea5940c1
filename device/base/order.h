// SPDX-License-Identifier: Apache-2.0
//
// Every access to memory that somebody else may touch at the same time: other lanes, other GPUs,
// the NIC.
//
// Operations are named by strength and templated on Reach: how far away the other side may be.
// Reach::kLane means nobody else looks, and compiles to plain loads and stores. Ordering edges are
// numbered in docs/memory_model.md. Fences have names that say what they order; there is no other
// fence in the project.
#pragma once

#include <cstdint>
#include <cstring>

#include "device/base/target.h"

#if PEAL_ON_GPU
#include "device/base/order_gpu.h"
#elif PEAL_SIM
#include "device/base/order_sim.h"
#else
#include "device/base/order_cpu.h"
#endif

namespace peal {

/// One 16-byte line of a work queue entry.
struct alignas(16) Line {
  uint64_t word[2];
};

/// Plain 16-byte store: one instruction on a GPU. Unordered until a publishing store or fence.
PEAL_HD void store_line(void* where, const Line& line) {
#if PEAL_ON_GPU
  asm volatile("st.global.v2.b64 [%0], {%1, %2};" ::"l"(where), "l"(line.word[0]), "l"(line.word[1])
               : "memory");
#elif PEAL_SIM
  sim::copy(where, &line, sizeof(line));
#else
  // Two words, so that they go from registers to the queue without a detour over the stack.
  static_cast<Line*>(where)->word[0] = line.word[0];
  static_cast<Line*>(where)->word[1] = line.word[1];
#endif
}

/// Plain load of payload at home, whatever its type was. Aligned; may lie in shared memory.
template <class Unit>
PEAL_HD Unit load_payload(const Unit* from) {
#if PEAL_ON_GPU
  return *from;
#elif PEAL_SIM
  Unit unit{};
  sim::copy(&unit, from, sizeof(unit));
  return unit;
#else
  Unit unit;
  memcpy(&unit, static_cast<const void*>(from), sizeof(unit));
  return unit;
#endif
}

/// Plain store of payload. Aligned; may lie in shared memory.
template <class Unit>
PEAL_HD void store_payload(Unit* to, Unit unit) {
#if PEAL_SIM
  sim::copy(to, &unit, sizeof(unit));
#else
  *to = unit;
#endif
}

/// Load of up to 8 bytes of payload at a peer, in one piece.
template <class Unit>
PEAL_HD Unit load_direct(const Unit* from) {
#if PEAL_SIM
  return load_payload(from);
#else
  return *const_cast<const volatile Unit*>(from);
#endif
}

/// 16-byte load of payload at a peer: never from a stale cache line of this multiprocessor.
PEAL_HD Line load_line_direct(const void* where) {
#if PEAL_ON_GPU
  Line line;
  asm volatile("ld.relaxed.sys.global.L1::no_allocate.v2.b64 {%0, %1}, [%2];"
               : "=l"(line.word[0]), "=l"(line.word[1])
               : "l"(where)
               : "memory");
  return line;
#elif PEAL_SIM
  return load_payload(static_cast<const Line*>(where));
#else
  return *static_cast<const Line*>(where);
#endif
}

}  // namespace peal
