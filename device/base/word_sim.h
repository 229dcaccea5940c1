// SPDX-License-Identifier: Apache-2.0
//
// An atomic_ref of a simulation: what the software NIC's words are there. The NIC reaches as far as
// the system.
#pragma once

#include <atomic>

#include "device/base/order_sim.h"

namespace peal::sim {

template <class T>
class SimulatedWord {
 public:
  explicit SimulatedWord(T& word) : word_(&word) {}

  T load(std::memory_order order) const { return sim::load(word_, access(order)); }
  void store(T value, std::memory_order order) const { sim::store(word_, value, access(order)); }
  T fetch_add(T value, std::memory_order order) const {
    return update(word_, access(order), [value](T old) { return static_cast<T>(old + value); });
  }
  T exchange(T value, std::memory_order order) const {
    return update(word_, access(order), [value](T) { return value; });
  }
  bool compare_exchange_strong(T& expected, T desired, std::memory_order order) const {
    const T wanted = expected;
    expected =
        update<false>(word_, access(order), [&](T old) { return old == wanted ? desired : old; });
    return expected == wanted;
  }

 private:
  static simt::ModelAccess access(std::memory_order order) {
    switch (order) {
      case std::memory_order_relaxed:
        return {simt::Scope::kSystem, simt::MemoryOrder::kRelaxed};
      case std::memory_order_acquire:
        return {simt::Scope::kSystem, simt::MemoryOrder::kAcquire};
      case std::memory_order_release:
        return {simt::Scope::kSystem, simt::MemoryOrder::kRelease};
      default:
        return {simt::Scope::kSystem, simt::MemoryOrder::kBoth};
    }
  }

  T* word_;
};

}  // namespace peal::sim
