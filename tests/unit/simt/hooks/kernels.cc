// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/simt/hooks/kernels.h"

#include <cstring>
#include <new>

#if defined(__SANITIZE_THREAD__)
#error "nothing of a sanitizer is in the program"
#endif

namespace peal::simt::observed {

// clang-format off
template <class T>
[[gnu::noinline]] int load(const T* from, T* value) {
  *value = *from; return __LINE__;
}

template <class T>
[[gnu::noinline]] int store(T* to, T value) {
  *to = value; return __LINE__;
}

template <class T>
[[gnu::noinline]] int load_volatile(const volatile T* from, T* value) {
  *value = *from; return __LINE__;
}

template <class T>
[[gnu::noinline]] int store_volatile(volatile T* to, T value) {
  *to = value; return __LINE__;
}

int store_unaligned(Packed* to, uint64_t value) {
  to->word = value; return __LINE__;
}

int copy_struct(Wide* to, const Wide* from) {
  *to = *from; return __LINE__;
}

int make_virtual(void* where) {
  new (where) Virtual; return __LINE__;
}

int copy(void* to, const void* from, size_t bytes) {
  std::memcpy(to, from, bytes); return __LINE__;
}

int copy_24(void* to, const void* from) {
  std::memcpy(to, from, 24); return __LINE__;
}

int move(void* to, const void* from, size_t bytes) {
  std::memmove(to, from, bytes); return __LINE__;
}

int set(void* to, int value, size_t bytes) {
  std::memset(to, value, bytes); return __LINE__;
}

int fence(std::memory_order order) {
  std::atomic_thread_fence(order); return __LINE__;
}
// clang-format on

template <class T>
T atomic_load(T* from, std::memory_order order) {
  return std::atomic_ref<T>(*from).load(order);
}

template <class T>
void atomic_store(T* to, T value, std::memory_order order) {
  std::atomic_ref<T>(*to).store(value, order);
}

template <class T>
T atomic_update(Kind kind, T* to, T value, std::memory_order order) {
  std::atomic_ref<T> word(*to);
  switch (kind) {
    case Kind::kExchange:
      return word.exchange(value, order);
    case Kind::kAdd:
      return word.fetch_add(value, order);
    case Kind::kSub:
      return word.fetch_sub(value, order);
    case Kind::kAnd:
      return word.fetch_and(value, order);
    case Kind::kOr:
      return word.fetch_or(value, order);
    case Kind::kXor:
      return word.fetch_xor(value, order);
    case Kind::kNand:
      break;
  }
  return __atomic_fetch_nand(to, value, __ATOMIC_SEQ_CST);
}

template <class T>
bool atomic_compare_exchange(T* to, T* expected, T value, bool weak) {
  std::atomic_ref<T> word(*to);
  return weak ? word.compare_exchange_weak(*expected, value)
              : word.compare_exchange_strong(*expected, value);
}

#define OBSERVED_PLAIN(T)                            \
  template int load(const T*, T*);                   \
  template int store(T*, T);                         \
  template int load_volatile(const volatile T*, T*); \
  template int store_volatile(volatile T*, T);

#define OBSERVED_ATOMIC(T)                                  \
  template T atomic_load(T*, std::memory_order);            \
  template void atomic_store(T*, T, std::memory_order);     \
  template T atomic_update(Kind, T*, T, std::memory_order); \
  template bool atomic_compare_exchange(T*, T*, T, bool);

OBSERVED_PLAIN(uint8_t)
OBSERVED_PLAIN(uint16_t)
OBSERVED_PLAIN(uint32_t)
OBSERVED_PLAIN(uint64_t)
OBSERVED_PLAIN(unsigned __int128)
OBSERVED_ATOMIC(uint8_t)
OBSERVED_ATOMIC(uint16_t)
OBSERVED_ATOMIC(uint32_t)
OBSERVED_ATOMIC(uint64_t)

}  // namespace peal::simt::observed
