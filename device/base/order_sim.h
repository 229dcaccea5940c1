// SPDX-License-Identifier: Apache-2.0
//
// order.h in a simulation: every operation is a place where another lane may run, and memory is as
// weak as simt/simulation/memory.h says. An operation whose edge the simulation weakens loses its
// ordering. Memory that is not the simulation's (a lane's own stack) is read and written plainly.
#pragma once

#include <cstddef>
#include <cstring>

#include "device/base/access.h"
#include "device/base/edge.h"
#include "simt/simulation/simulation.h"

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
T load(const T* p, const simt::ModelAccess& access) {
  simt::point();
  simt::WeakMemory* const memory = simt::model_of(reinterpret_cast<uintptr_t>(p));
  if (memory == nullptr) return *p;
  return from_bits<T>(memory->load(simt::agent(), p, sizeof(T), access));
}

template <class T>
void store(T* p, T value, const simt::ModelAccess& access) {
  simt::point();
  simt::WeakMemory* const memory = simt::model_of(reinterpret_cast<uintptr_t>(p));
  if (memory == nullptr) {
    *p = value;
  } else {
    memory->store(simt::agent(), p, sizeof(T), to_bits(value), access);
  }
}

/// Replaces *p by next(old) unless that is old itself and `kAlways` is false; returns old.
template <bool kAlways = true, class T, class Next>
T update(T* p, const simt::ModelAccess& access, const Next& next) {
  simt::point();
  simt::WeakMemory* const memory = simt::model_of(reinterpret_cast<uintptr_t>(p));
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
  constexpr simt::ModelAccess kPlain{};
  auto* out = static_cast<std::byte*>(to);
  const auto* in = static_cast<const std::byte*>(from);
  simt::WeakMemory* const target = simt::model_of(reinterpret_cast<uintptr_t>(to));
  simt::WeakMemory* const source = simt::model_of(reinterpret_cast<uintptr_t>(from));
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

namespace memory {

template <Reach R, Order O, Edge E>
simt::ModelAccess access() {
  constexpr simt::MemoryOrder kOrders[] = {simt::MemoryOrder::kRelaxed, simt::MemoryOrder::kAcquire,
                                           simt::MemoryOrder::kRelease, simt::MemoryOrder::kBoth};
  const bool taken = E != Edge::kNone && weakened(E);
  // A user's read-modify-write is where one edge ends and another begins.
  if (E == Edge::kStoresBeforeRelease && O == Order::kBoth) {
    if (weakened(Edge::kAcquireBeforeLoads)) return {sim::scope_of(R), simt::MemoryOrder::kRelease};
    return {sim::scope_of(R), taken ? simt::MemoryOrder::kAcquire : simt::MemoryOrder::kBoth};
  }
  return {sim::scope_of(R), taken ? simt::MemoryOrder::kRelaxed : kOrders[static_cast<int>(O)]};
}

template <Reach R, Order O, Edge E, class T>
T load(const T* p) {
  return sim::load(p, access<R, O, E>());
}

template <Reach R, Order O, Edge E, class T>
void store(T* p, T value) {
  simt::ModelAccess how = access<R, O, E>();
  // A relaxed store is part of an edge only by its place in the program: weakened, it loses that.
  if (O == Order::kRelaxed && E != Edge::kNone && weakened(E)) how.order = simt::MemoryOrder::kLate;
  sim::store(p, value, how);
}

template <Reach R, Order O, Edge E, class T>
T compare_swap(T* p, T expected, T desired) {
  return sim::update<false>(p, access<R, O, E>(),
                            [&](T old) { return old == expected ? desired : old; });
}

template <Update U, Reach R, Order O, Edge E, class T>
T update(T* p, T value) {
  return sim::update<U != Update::kRaise>(p, access<R, O, E>(),
                                          [value](T old) { return updated<U>(old, value); });
}

template <Update U, Order O, Edge E, class T>
void update_blind(T* p, T value) {
  update<U, Reach::kSystem, O, E>(p, value);
}

template <Order O, Edge E, class T>
T add_real(T* p, T value) {
  return sim::update(p, access<Reach::kSystem, O, E>(), [value](T old) { return old + value; });
}

inline constexpr Order kBatched = Order::kRelaxed;
template <class T>
T load_neighbour(const T* p) {
  return load<Reach::kSystem, Order::kRelaxed, Edge::kNone>(p);
}
template <Reach R, Edge E>
void fence_acquire() {
  if ((E != Edge::kNone && weakened(E)) || !simt::in_simulation()) return;
  simt::point();
  simt::model().fence(simt::agent(), simt::MemoryOrder::kAcquire);
}

template <Reach R, Edge E>
void fence_release() {
  if ((E != Edge::kNone && weakened(E)) || !simt::in_simulation()) return;
  simt::point();
  simt::model().fence(simt::agent(), simt::MemoryOrder::kRelease, sim::scope_of(R));
}

template <Edge E>
void fence_direct() {
  fence_release<Reach::kSystem, E>();
}

}  // namespace memory

/// As on a GPU: the register may hear of a store before memory does.
inline constexpr bool kMmioMayOvertake = true;
inline void store_mmio(uint64_t* reg, uint64_t value) {
  simt::point();
  simt::WeakMemory* const memory = simt::model_of(reinterpret_cast<uintptr_t>(reg));
  if (memory != nullptr) memory->post(simt::agent(), reg, value);
}

inline void flush_mmio() {}

inline void store_line(void* where, const Line& line) { sim::copy(where, &line, sizeof(line)); }

template <class Unit>
Unit load_payload(const Unit* from) {
  Unit unit{};
  sim::copy(&unit, from, sizeof(unit));
  return unit;
}

template <class Unit>
void store_payload(Unit* to, Unit unit) {
  sim::copy(to, &unit, sizeof(unit));
}

template <class Unit>
Unit load_direct(const Unit* from) {
  return load_payload(from);
}

template <class T>
T load_object(const T& object) {
  return object;
}

inline Line load_line_direct(const void* where) {
  const auto* const words = static_cast<const uint64_t*>(where);
  Line line;
  for (int i = 0; i < 2; ++i) {
    line.word[i] = memory::load<Reach::kSystem, Order::kRelaxed, Edge::kNone>(&words[i]);
  }
  return line;
}

inline uint64_t load_stale(const uint64_t* where) {
  return memory::load<Reach::kSystem, Order::kRelaxed, Edge::kNone>(where);
}
inline Line load_line_stale(const void* where) { return load_line_direct(where); }
inline void store_line_direct(void* where, const Line& line) {
  auto* const words = static_cast<uint64_t*>(where);
  for (int i = 0; i < 2; ++i) {
    memory::store<Reach::kSystem, Order::kRelaxed, Edge::kNone>(&words[i], line.word[i]);
  }
}

}  // namespace peal
