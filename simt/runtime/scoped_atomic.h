// SPDX-License-Identifier: Apache-2.0
//
// cuda::atomic and cuda::atomic_ref: C++'s, with a scope that means nothing here. A load or an
// exchange is what a kernel spins on, so it lets other lanes run.
#pragma once

#include <atomic>

#include "simt/lanes/lane.h"
#include "simt/lanes/sanitizer.h"

namespace cuda {

enum thread_scope {
  thread_scope_system,
  thread_scope_device,
  thread_scope_block,
  thread_scope_thread,
};

using std::memory_order;
using std::memory_order_acq_rel;
using std::memory_order_acquire;
using std::memory_order_consume;
using std::memory_order_relaxed;
using std::memory_order_release;
using std::memory_order_seq_cst;

inline void atomic_thread_fence(memory_order, thread_scope scope = thread_scope_system) {
  using Reach = ::peal::simt::FenceReach;
  if (scope == thread_scope_thread) return;
  ::peal::simt::breathe();
  const Reach reach = scope == thread_scope_block    ? Reach::kBlock
                      : scope == thread_scope_device ? Reach::kDevice
                                                     : Reach::kSystem;
  if (!::peal::simt::simulated_fence(reach)) ::peal::simt::full_fence();
}

template <class T, thread_scope kScope = thread_scope_system>
class atomic_ref {
 public:
  using value_type = T;
  explicit atomic_ref(T& object) : word_(object) {}

  T load(memory_order order = memory_order_seq_cst) const { return breathed().load(order); }
  operator T() const { return load(); }
  void store(T value, memory_order order = memory_order_seq_cst) const {
    word_.store(value, order);
  }
  T operator=(T value) const {
    store(value);
    return value;
  }
  T exchange(T value, memory_order order = memory_order_seq_cst) const {
    return breathed().exchange(value, order);
  }
  template <class... Orders>
  bool compare_exchange_strong(T& expected, T value, Orders... orders) const {
    return breathed().compare_exchange_strong(expected, value, orders...);
  }
  template <class... Orders>
  bool compare_exchange_weak(T& expected, T value, Orders... orders) const {
    return breathed().compare_exchange_weak(expected, value, orders...);
  }

#define PEAL_SIMT_FETCH(NAME)                                        \
  T NAME(T value, memory_order order = memory_order_seq_cst) const { \
    return breathed().NAME(value, order);                            \
  }
  PEAL_SIMT_FETCH(fetch_add)
  PEAL_SIMT_FETCH(fetch_sub)
  PEAL_SIMT_FETCH(fetch_and)
  PEAL_SIMT_FETCH(fetch_or)
  PEAL_SIMT_FETCH(fetch_xor)
#undef PEAL_SIMT_FETCH
  T fetch_min(T value, memory_order order = memory_order_seq_cst) const {
    return update([=](T old) { return value < old ? value : old; }, order);
  }
  T fetch_max(T value, memory_order order = memory_order_seq_cst) const {
    return update([=](T old) { return old < value ? value : old; }, order);
  }
  T operator++() const { return fetch_add(T{1}) + T{1}; }
  T operator++(int) const { return fetch_add(T{1}); }
  T operator--() const { return fetch_sub(T{1}) - T{1}; }
  T operator--(int) const { return fetch_sub(T{1}); }
  T operator+=(T value) const { return fetch_add(value) + value; }
  T operator-=(T value) const { return fetch_sub(value) - value; }

 private:
  using Word = ::std::atomic_ref<T>;
  const Word& breathed() const {
    ::peal::simt::breathe();
    return word_;
  }
  template <class Next>
  T update(Next next, memory_order order) const {
    T old = load(memory_order_relaxed);
    while (!compare_exchange_weak(old, next(old), order)) {
    }
    return old;
  }
  Word word_;
};

/// One that owns its word.
template <class T, thread_scope kScope = thread_scope_system>
class atomic {
 public:
  using value_type = T;
  atomic() = default;
  constexpr atomic(T value) : value_(value) {}
  atomic(const atomic&) = delete;
  atomic& operator=(const atomic&) = delete;

  T load(memory_order order = memory_order_seq_cst) const { return ref().load(order); }
  operator T() const { return load(); }
  void store(T value, memory_order order = memory_order_seq_cst) { ref().store(value, order); }
  T operator=(T value) { return ref() = value; }
  T exchange(T value, memory_order order = memory_order_seq_cst) {
    return ref().exchange(value, order);
  }
  template <class... Orders>
  bool compare_exchange_strong(T& expected, T value, Orders... orders) {
    return ref().compare_exchange_strong(expected, value, orders...);
  }
  template <class... Orders>
  bool compare_exchange_weak(T& expected, T value, Orders... orders) {
    return ref().compare_exchange_weak(expected, value, orders...);
  }

#define PEAL_SIMT_FETCH(NAME) \
  T NAME(T value, memory_order order = memory_order_seq_cst) { return ref().NAME(value, order); }
  PEAL_SIMT_FETCH(fetch_add)
  PEAL_SIMT_FETCH(fetch_sub)
  PEAL_SIMT_FETCH(fetch_and)
  PEAL_SIMT_FETCH(fetch_or)
  PEAL_SIMT_FETCH(fetch_xor)
  PEAL_SIMT_FETCH(fetch_min)
  PEAL_SIMT_FETCH(fetch_max)
#undef PEAL_SIMT_FETCH
  T operator++() { return ++ref(); }
  T operator++(int) { return ref()++; }
  T operator--() { return --ref(); }
  T operator--(int) { return ref()--; }
  T operator+=(T value) { return ref() += value; }
  T operator-=(T value) { return ref() -= value; }

 private:
  atomic_ref<T, kScope> ref() const { return atomic_ref<T, kScope>(value_); }
  alignas(::std::atomic_ref<T>::required_alignment) mutable T value_;
};

// libcu++'s second spelling of what is C++'s own.
namespace std {
using ::std::memory_order;
using ::std::memory_order_acq_rel;
using ::std::memory_order_acquire;
using ::std::memory_order_relaxed;
using ::std::memory_order_release;
using ::std::memory_order_seq_cst;
}  // namespace std

}  // namespace cuda
