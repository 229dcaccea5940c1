// SPDX-License-Identifier: Apache-2.0
//
// A deque of tasks at each PE, for work stealing: its owner pushes and pops at the bottom, other
// PEs steal at the top.
//
//   ends    bottom << 32 | top      slot i % capacity holds task i, top <= i < bottom
//
// Both ends are one word, so a compare and swap decides who gets a task. A thief reads the slot
// first and swaps then: where the word is as it was, nobody took the task, and the owner has not
// written its slot again, for it does so only behind a larger top. Whoever takes the last task
// raises the top, owner or thief, so no slot at the top is used again while the word looks the
// same.
//
// A thief that comes too late may read a slot while the owner writes it. Its swap fails then, and
// it drops what it read; a race detector may report the two, if as many tasks as there are slots
// were pushed meanwhile.
//
//   push   plain stores into the slot at home, then `ends` with release
//   steal  `ends` with acquire, get of the slot, then the swap: its release keeps the get ahead of
//          it, so that an owner who acquires the new top may write the slot
//
// One lane of the owner pushes and pops. All PEs must reach `ends` in one way (rule 5 of
// docs/memory_model.md).
#pragma once

#include <cstdint>

#include "device/api.h"

template <class Task>
struct WorkDeque {
  uint64_t* ends;     // symmetric, zeroed
  Task* slots;        // symmetric, [capacity]
  uint32_t capacity;  // a power of two

  PEAL_DEVICE static uint32_t top(uint64_t ends) { return static_cast<uint32_t>(ends); }
  PEAL_DEVICE static uint32_t bottom(uint64_t ends) { return static_cast<uint32_t>(ends >> 32); }
  PEAL_DEVICE static uint32_t tasks(uint64_t ends) { return bottom(ends) - top(ends); }
  PEAL_DEVICE static uint64_t pack(uint32_t bottom, uint32_t top) {
    return uint64_t{bottom} << 32 | top;
  }
  PEAL_DEVICE Task* slot(uint32_t i) const { return &slots[i % capacity]; }

  /// By the owner: adds a task. False where there is no room.
  template <peal::Reach R>
  PEAL_DEVICE peal::Fetched<bool> push(const peal::BasicContext<R>& ctx, const Task& task) const {
    // What the thieves of the slots' last tasks had read is read.
    const auto now = peal::atomic_fetch(ctx, ends, ctx.pe, peal::acquire);
    if (now.status != peal::Status::kOk || tasks(now.value) == capacity) {
      return {false, now.status};
    }
    peal::store_payload(slot(bottom(now.value)), task);  // a plain store
    return {true, peal::atomic_add(ctx, ends, pack(1, 0), ctx.pe, peal::release)};
  }

  /// By the owner: takes the task that was pushed last. False where there is none.
  template <peal::Reach R>
  PEAL_DEVICE peal::Fetched<bool> pop(const peal::BasicContext<R>& ctx, Task* to) const {
    auto seen = peal::atomic_fetch(ctx, ends, ctx.pe);
    // Each turn but the last, a thief has taken one: at most as many as there were.
    while (seen.status == peal::Status::kOk && tasks(seen.value) != 0) {
      const uint64_t old = seen.value;
      const uint32_t last = bottom(old) - 1;
      const uint64_t fresh =
          last == top(old) ? pack(bottom(old), bottom(old)) : pack(last, top(old));
      seen = peal::atomic_compare_swap(ctx, ends, old, fresh, ctx.pe, peal::acq_rel);
      if (seen.status != peal::Status::kOk || seen.value != old) continue;
      *to = peal::load_payload(slot(last));
      return {true, peal::Status::kOk};
    }
    return {false, seen.status};
  }

  /// By any other PE: takes the oldest task of `victim`. `to` is memory at home that the NIC may
  /// write, such as the heap. False where there was none, or somebody else was quicker.
  template <peal::Reach R>
  PEAL_DEVICE peal::Fetched<bool> steal(const peal::BasicContext<R>& ctx, int victim,
                                        Task* to) const {
    const auto seen = peal::atomic_fetch(ctx, ends, victim, peal::acquire);
    if (seen.status != peal::Status::kOk || tasks(seen.value) == 0) return {false, seen.status};
    const peal::Status got = peal::get(ctx, to, slot(top(seen.value)), 1, victim);
    if (got != peal::Status::kOk) return {false, got};
    const uint64_t rest = pack(bottom(seen.value), top(seen.value) + 1);
    const auto old = peal::atomic_compare_swap(ctx, ends, seen.value, rest, victim, peal::acq_rel);
    return {old.status == peal::Status::kOk && old.value == seen.value, old.status};
  }
};
