// SPDX-License-Identifier: Apache-2.0
//
// Code of kernels, compiled so that its accesses are told. Each function says in which of its lines
// the access is.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace peal::simt::observed {

struct [[gnu::packed]] Packed {
  char before;
  uint64_t word;
};

/// Large enough that it is no single access.
struct Wide {
  uint64_t words[5];
};

struct Virtual {
  virtual ~Virtual() = default;
};

template <class T>
int load(const T* from, T* value);
template <class T>
int store(T* to, T value);
template <class T>
int load_volatile(const volatile T* from, T* value);
template <class T>
int store_volatile(volatile T* to, T value);

int store_unaligned(Packed* to, uint64_t value);
int copy_struct(Wide* to, const Wide* from);
int make_virtual(void* where);
int copy(void* to, const void* from, size_t bytes);
int copy_24(void* to, const void* from);
int move(void* to, const void* from, size_t bytes);
int set(void* to, int value, size_t bytes);
int fence(std::memory_order order);

/// Each kind of atomic, as std::atomic_ref has it.
enum class Kind { kExchange, kAdd, kSub, kAnd, kOr, kXor, kNand };

template <class T>
T atomic_load(T* from, std::memory_order order);
template <class T>
void atomic_store(T* to, T value, std::memory_order order);
/// The old value.
template <class T>
T atomic_update(Kind kind, T* to, T value, std::memory_order order);
/// Whether it was exchanged. `expected` has what was found otherwise.
template <class T>
bool atomic_compare_exchange(T* to, T* expected, T value, bool weak);

}  // namespace peal::simt::observed
