// SPDX-License-Identifier: Apache-2.0
//
// Every access of kernels and host to memory that somebody else may touch at the same time: other
// lanes, other GPUs, the NIC.
//
// Operations are named by strength and templated on Reach: how far away the other side may be.
// Reach::kLane means nobody else looks, and compiles to plain loads and stores. E names the
// ordering edge that an operation is part of (docs/edges.md). Fences have names that say
// what they order.
//
// Each machine has a header with the primitives (namespace memory): load, store, update,
// update_blind, compare_swap, add_real, three fences. It also has what is one instruction on a GPU:
//
//   store_mmio            rings a NIC register: an 8-byte store that is neither merged nor dropped;
//                         where kMmioMayOvertake it may arrive before this lane's earlier stores
//   load_, store_payload  plain, of memory at home; aligned; may lie in shared memory
//   store_line            plain, of 16 bytes; unordered until a publishing store or fence
//   load_direct           of up to 8 bytes at a peer, in one piece
//   load_, store_line_direct   of 16 bytes at a peer or that a peer writes, each half in one piece;
//                         never from a stale cache line
//   load_stale            of 8 bytes at home, in one piece; for hints: may be older than what the
//                         lane was told of
//   load_line_stale       the same of 16 bytes, each half in one piece
//   load_object           of any size, while another writes its words: what is read may be old
#pragma once

#include <cstdint>

#include "device/base/target.h"

#if PEAL_ON_GPU
#include "device/base/order_gpu.h"
#elif PEAL_SIM
#include "device/base/order_sim.h"
#else
#include "device/base/order_cpu.h"
#endif

namespace peal {

template <Reach R, Edge E = Edge::kNone, class T>
PEAL_HD T load_relaxed(const T* p) {
  return memory::load<R, Order::kRelaxed, E>(p);
}

template <Reach R, Edge E = Edge::kNone, class T>
PEAL_HD T load_acquire(const T* p) {
  return memory::load<R, Order::kAcquire, E>(p);
}

template <Reach R, Edge E = Edge::kNone, class T>
PEAL_HD void store_relaxed(T* p, T value) {
  memory::store<R, Order::kRelaxed, E>(p, value);
}

template <Reach R, Edge E = Edge::kNone, class T>
PEAL_HD void store_release(T* p, T value) {
  memory::store<R, Order::kRelease, E>(p, value);
}

/// Adds and returns the old value; orders nothing.
template <Reach R, Edge E = Edge::kNone, class T>
PEAL_HD T fetch_add_relaxed(T* p, T value) {
  return memory::update<Update::kAdd, R, Order::kRelaxed, E>(p, value);
}

/// The same; acquires and releases.
template <Reach R, Edge E = Edge::kNone, class T>
PEAL_HD T fetch_add(T* p, T value) {
  return memory::update<Update::kAdd, R, Order::kBoth, E>(p, value);
}

/// The same; acquires.
template <Reach R, Edge E = Edge::kNone, class T>
PEAL_HD T fetch_add_acquire(T* p, T value) {
  return memory::update<Update::kAdd, R, Order::kAcquire, E>(p, value);
}

/// Sets bits of *p and returns the old value; acquires and releases.
template <Reach R, Edge E = Edge::kNone, class T>
PEAL_HD T fetch_or(T* p, T bits) {
  return memory::update<Update::kOr, R, Order::kBoth, E>(p, bits);
}
/// The same; acquires.
template <Reach R, Edge E = Edge::kNone, class T>
PEAL_HD T fetch_or_acquire(T* p, T bits) {
  return memory::update<Update::kOr, R, Order::kAcquire, E>(p, bits);
}

/// Sets or clears bits of *p; orders nothing.
template <Reach R, Edge E = Edge::kNone, class T>
PEAL_HD void set_bits(T* p, T bits) {
  memory::update<Update::kOr, R, Order::kRelaxed, E>(p, bits);
}
template <Reach R, Edge E = Edge::kNone, class T>
PEAL_HD void clear_bits(T* p, T bits) {
  memory::update<Update::kAnd, R, Order::kRelaxed, E>(p, ~bits);
}

/// Clears bits of *p; releases what came before.
template <Reach R, Edge E = Edge::kNone, class T>
PEAL_HD void clear_bits_release(T* p, T bits) {
  memory::update<Update::kAnd, R, Order::kRelease, E>(p, ~bits);
}

/// Swaps in `value`; acquires what the previous writer released and releases what came before.
template <Reach R, Edge E = Edge::kNone, class T>
PEAL_HD T exchange(T* p, T value) {
  return memory::update<Update::kSwap, R, Order::kBoth, E>(p, value);
}

/// Stores `desired` if *p is `expected`; returns the old value. Acquires and releases.
template <Reach R, Edge E = Edge::kNone, class T>
PEAL_HD T compare_swap(T* p, T expected, T desired) {
  return memory::compare_swap<R, Order::kBoth, E>(p, expected, desired);
}

/// The same; releases.
template <Reach R, Edge E = Edge::kNone, class T>
PEAL_HD T compare_swap_release(T* p, T expected, T desired) {
  return memory::compare_swap<R, Order::kRelease, E>(p, expected, desired);
}

/// compare_swap(); true where it stored.
template <Reach R, Edge E = Edge::kNone, class T>
PEAL_HD bool compare_exchange(T* p, T expected, T desired) {
  return compare_swap<R, E>(p, expected, desired) == expected;
}

/// Raises *p to at least `value`. Acquires and releases.
template <Reach R, Edge E = Edge::kNone, class T>
PEAL_HD void raise_to(T* p, T value) {
  memory::update<Update::kRaise, R, Order::kBoth, E>(p, value);
}

/// The same; releases.
template <Reach R, Edge E = Edge::kNone, class T>
PEAL_HD void raise_to_release(T* p, T value) {
  memory::update<Update::kRaise, R, Order::kRelease, E>(p, value);
}

/// Loads a word of a peer's memory.
template <Order O, Edge E = Edge::kNone, class T>
PEAL_HD T fetch_direct(const T* p) {
  return memory::load<Reach::kSystem, O, E>(p);
}

/// Updates a word of a peer's memory and returns the old value.
template <Update U, Order O, Edge E = Edge::kNone, class T>
PEAL_HD T fetch_update_direct(T* p, T value) {
  return memory::update<U, Reach::kSystem, O, E>(p, value);
}

/// The same without the old value: nobody waits for it.
template <Update U, Order O, Edge E = Edge::kNone, class T>
PEAL_HD void update_direct(T* p, T value) {
  if constexpr (U == Update::kSwap) {
    memory::store<Reach::kSystem, O, E>(p, value);
  } else {
    memory::update_blind<U, O, E>(p, value);
  }
}

/// Stores `desired` if the word of a peer's memory is `expected`; returns the old value.
template <Order O, Edge E = Edge::kNone, class T>
PEAL_HD T compare_swap_direct(T* p, T expected, T desired) {
  return memory::compare_swap<Reach::kSystem, O, E>(p, expected, desired);
}

/// Adds to a float or double of a peer's memory and returns the old value.
template <Order O, Edge E = Edge::kNone, class T>
PEAL_HD T fetch_add_real_direct(T* p, T value) {
  return memory::add_real<O, E>(p, value);
}

/// One of several loads that are under way at once; acquire_batch() of that reach or a wider one
/// behind them makes each an acquire.
template <Reach R, class T>
PEAL_HD T load_batched(const T* p) {
  return memory::load<R, memory::kBatched, Edge::kNone>(p);
}
/// One of several loads of 4-byte words that lie side by side: one trip to memory brings those of a
/// cache line. No older than this lane's last acquire, else like load_batched().
PEAL_HD uint32_t load_neighbour(const uint32_t* p) { return memory::load_neighbour(p); }
template <Reach R, Edge E = Edge::kNone>
PEAL_HD void acquire_batch() {
  memory::fence_acquire<R, E>();
}

/// Orders this lane's stores into peers' memory (and those of lanes it has synchronised with)
/// before what it stores next. Edge kStoresBeforeFlag. Reach::kGpu is enough where all of that
/// memory is this GPU's.
template <Edge E = Edge::kNone, Reach R = Reach::kSystem>
PEAL_HD void fence_direct_stores() {
  static_assert(R == Reach::kGpu || R == Reach::kSystem);
  if constexpr (R == Reach::kGpu) {
    memory::fence_release<R, E>();
  } else {
    memory::fence_direct<E>();
  }
}

/// Orders what this lane has written, and what it knows of other lanes' writes, before what it
/// tells the NIC next. Reach::kGpu is enough where the NIC reads all of it from this GPU's memory.
template <Reach R, Edge E = Edge::kNone>
PEAL_HD void fence_posted() {
  static_assert(R == Reach::kGpu || R == Reach::kSystem);
  memory::fence_release<R, E>();
}

}  // namespace peal
