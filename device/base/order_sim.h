// SPDX-License-Identifier: Apache-2.0
//
// order.h in a simulation: every operation is a place where another lane may run, and memory is as
// weak as simt/memory.h says. An operation whose edge the simulation weakens loses its ordering.
// Memory that is not the simulation's (a lane's own stack) is read and written plainly.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "device/base/edge.h"
#include "device/base/reach.h"
#include "device/base/target.h"
#include "simt/simulation.h"

namespace peal {
namespace sim {

constexpr simt::Scope scope_of(Reach reach) {
  switch (reach) {
    case Reach::kLane:
      return simt::Scope::kLane;
    case Reach::kBlock:
      return simt::Scope::kBlock;
    case Reach::kGpu:
      return simt::Scope::kDevice;
    case Reach::kSystem:
      return simt::Scope::kSystem;
  }
  return simt::Scope::kSystem;
}

inline simt::Access access_of(Reach reach, simt::Order order, Edge edge) {
  if (edge != Edge::kNone && order != simt::Order::kRelaxed && weakened(edge)) {
    order = simt::Order::kRelaxed;
  }
  return {scope_of(reach), order};
}

template <class T>
uint64_t to_bits(const T& value) {
  static_assert(sizeof(T) <= 8);
  uint64_t bits = 0;
  memcpy(&bits, static_cast<const void*>(&value), sizeof(T));
  return bits;
}

template <class T>
T from_bits(uint64_t bits) {
  T value;
  memcpy(static_cast<void*>(&value), &bits, sizeof(T));
  return value;
}

template <class T>
T load(const T* p, const simt::Access& access) {
  simt::point();
  simt::Memory* const memory = simt::model_of(reinterpret_cast<uintptr_t>(p));
  if (memory == nullptr) return *p;
  return from_bits<T>(memory->load(simt::agent(), p, sizeof(T), access));
}

template <class T>
void store(T* p, T value, const simt::Access& access) {
  simt::point();
  simt::Memory* const memory = simt::model_of(reinterpret_cast<uintptr_t>(p));
  if (memory == nullptr) {
    *p = value;
  } else {
    memory->store(simt::agent(), p, sizeof(T), to_bits(value), access);
  }
}

/// Replaces *p by next(old) unless that is old itself and `kAlways` is false; returns old.
template <bool kAlways = true, class T, class Next>
T update(T* p, const simt::Access& access, const Next& next) {
  simt::point();
  simt::Memory* const memory = simt::model_of(reinterpret_cast<uintptr_t>(p));
  const uint64_t me = memory == nullptr ? 0 : simt::agent();
  const T old = memory == nullptr ? *p : from_bits<T>(memory->newest(me, p, sizeof(T), access));
  const T fresh = next(old);
  if (!kAlways && fresh == old) return old;
  if (memory == nullptr) {
    *p = fresh;
  } else {
    memory->replace(me, p, sizeof(T), to_bits(fresh), access);
  }
  return old;
}

/// A plain copy upwards, in pieces that neither side sees torn where they are aligned words.
inline void copy(void* to, const void* from, size_t bytes) {
  constexpr simt::Access kPlain{};
  auto* out = static_cast<std::byte*>(to);
  const auto* in = static_cast<const std::byte*>(from);
  simt::Memory* const target = simt::model_of(reinterpret_cast<uintptr_t>(to));
  simt::Memory* const source = simt::model_of(reinterpret_cast<uintptr_t>(from));
  if (target == nullptr && source == nullptr) {
    if (bytes != 0) memcpy(to, from, bytes);
    return;
  }
  while (bytes != 0) {
    size_t piece = 8;
    const auto ends = (target != nullptr ? reinterpret_cast<uintptr_t>(out) : 0) |
                      (source != nullptr ? reinterpret_cast<uintptr_t>(in) : 0);
    while (piece > bytes || ends % piece != 0) piece /= 2;
    const auto width = static_cast<unsigned>(piece);
    simt::point();
    uint64_t word = 0;
    if (source != nullptr) {
      word = source->load(simt::agent(), in, width, kPlain);
    } else {
      memcpy(&word, in, piece);
    }
    if (target != nullptr) {
      target->store(simt::agent(), out, width, word, kPlain);
    } else {
      memcpy(out, &word, piece);
    }
    out += piece;
    in += piece;
    bytes -= piece;
  }
}

}  // namespace sim

template <Reach R, Edge E = Edge::kNone, class T>
T load_relaxed(const T* p) {
  return sim::load(p, sim::access_of(R, simt::Order::kRelaxed, E));
}
template <Reach R, Edge E = Edge::kNone, class T>
T load_acquire(const T* p) {
  return sim::load(p, sim::access_of(R, simt::Order::kAcquire, E));
}

/// Part of an edge only by its place in the program: weakened, it loses that.
template <Reach R, Edge E = Edge::kNone, class T>
void store_relaxed(T* p, T value) {
  const bool adrift = E != Edge::kNone && weakened(E);
  const simt::Order order = adrift ? simt::Order::kLate : simt::Order::kRelaxed;
  sim::store(p, value, {sim::scope_of(R), order});
}
template <Reach R, Edge E = Edge::kNone, class T>
void store_release(T* p, T value) {
  sim::store(p, value, sim::access_of(R, simt::Order::kRelease, E));
}

template <Reach R, Edge E = Edge::kNone, class T>
T fetch_add_relaxed(T* p, T value) {
  return sim::update(p, sim::access_of(R, simt::Order::kRelaxed, E),
                     [value](T old) { return static_cast<T>(old + value); });
}
template <Reach R, Edge E = Edge::kNone, class T>
T exchange(T* p, T value) {
  return sim::update(p, sim::access_of(R, simt::Order::kBoth, E), [value](T) { return value; });
}
template <Reach R, Edge E = Edge::kNone, class T>
bool compare_exchange(T* p, T expected, T desired) {
  return sim::update<false>(p, sim::access_of(R, simt::Order::kBoth, E),
                            [&](T old) { return old == expected ? desired : old; }) == expected;
}
template <Reach R, Edge E = Edge::kNone, class T>
void raise_to(T* p, T value) {
  sim::update<false>(p, sim::access_of(R, simt::Order::kBoth, E),
                     [value](T old) { return old < value ? value : old; });
}

template <Reach R, Edge E = Edge::kNone, class T>
void add_relaxed(T* p, T value) {
  fetch_add_relaxed<R, E>(p, value);
}
template <Reach R, Edge E = Edge::kNone, class T>
void add_release(T* p, T value) {
  sim::update(p, sim::access_of(R, simt::Order::kRelease, E),
              [value](T old) { return static_cast<T>(old + value); });
}
template <Reach R, Edge E = Edge::kNone, class T>
T fetch_and_relaxed(T* p, T value) {
  return sim::update(p, sim::access_of(R, simt::Order::kRelaxed, E),
                     [value](T old) { return static_cast<T>(old & value); });
}
template <Reach R, Edge E = Edge::kNone, class T>
T fetch_or_relaxed(T* p, T value) {
  return sim::update(p, sim::access_of(R, simt::Order::kRelaxed, E),
                     [value](T old) { return static_cast<T>(old | value); });
}
template <Reach R, Edge E = Edge::kNone, class T>
T fetch_xor_relaxed(T* p, T value) {
  return sim::update(p, sim::access_of(R, simt::Order::kRelaxed, E),
                     [value](T old) { return static_cast<T>(old ^ value); });
}
template <Reach R, Edge E = Edge::kNone, class T>
void and_relaxed(T* p, T value) {
  fetch_and_relaxed<R, E>(p, value);
}
template <Reach R, Edge E = Edge::kNone, class T>
void or_relaxed(T* p, T value) {
  fetch_or_relaxed<R, E>(p, value);
}
template <Reach R, Edge E = Edge::kNone, class T>
void xor_relaxed(T* p, T value) {
  fetch_xor_relaxed<R, E>(p, value);
}
template <Reach R, Edge E = Edge::kNone, class T>
T fetch_compare_swap_relaxed(T* p, T expected, T desired) {
  return sim::update<false>(p, sim::access_of(R, simt::Order::kRelaxed, E),
                            [&](T old) { return old == expected ? desired : old; });
}
template <Reach R, Edge E = Edge::kNone, class T>
T exchange_relaxed(T* p, T value) {
  return sim::update(p, sim::access_of(R, simt::Order::kRelaxed, E), [value](T) { return value; });
}

template <Reach R, Edge E = Edge::kNone, class T>
T load_batched(const T* p) {
  return load_relaxed<R>(p);
}
template <Edge E = Edge::kNone>
void acquire_batch() {
  if ((E != Edge::kNone && weakened(E)) || !simt::in_simulation()) return;
  simt::point();
  simt::model().fence(simt::agent(), simt::Order::kAcquire);
}

template <Edge E = Edge::kNone>
void fence_direct_stores() {
  if ((E != Edge::kNone && weakened(E)) || !simt::in_simulation()) return;
  simt::point();
  simt::model().fence(simt::agent(), simt::Order::kRelease);
}

template <Reach R, Edge E = Edge::kNone>
void fence_posted() {
  if ((E != Edge::kNone && weakened(E)) || !simt::in_simulation()) return;
  simt::point();
  simt::model().fence(simt::agent(), simt::Order::kRelease, sim::scope_of(R));
}

/// As on a GPU: the register may hear of a store before memory does.
inline constexpr bool kMmioMayOvertake = true;

inline void store_mmio(uint64_t* reg, uint64_t value) {
  simt::point();
  simt::Memory* const memory = simt::model_of(reinterpret_cast<uintptr_t>(reg));
  if (memory != nullptr) memory->post(simt::agent(), reg, value);
}

}  // namespace peal
