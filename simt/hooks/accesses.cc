// SPDX-License-Identifier: Apache-2.0
//
// What g++ calls ahead of plain and volatile accesses, and in place of memcpy and the like.
#include <cstring>

#include "simt/hooks/tell.h"

using peal::simt::hooks::tell;
using peal::simt::hooks::tell_read;
using peal::simt::hooks::tell_write;

#define PEAL_PLAIN_HOOKS(name, bytes)                                                         \
  void __tsan_##name##read##bytes(void* address) { tell_read(address, bytes, PEAL_HOOK_PC); } \
  void __tsan_##name##write##bytes(void* address) { tell_write(address, bytes, PEAL_HOOK_PC); }

// A volatile access is a relaxed atomic one in CUDA.
#define PEAL_VOLATILE_HOOKS(name, bytes)                                                      \
  void __tsan_##name##read##bytes(void* address) {                                            \
    tell({address, bytes, /*write=*/false, /*atomic=*/true, __ATOMIC_RELAXED, PEAL_HOOK_PC}); \
  }                                                                                           \
  void __tsan_##name##write##bytes(void* address) {                                           \
    tell({address, bytes, /*write=*/true, /*atomic=*/true, __ATOMIC_RELAXED, PEAL_HOOK_PC});  \
  }

extern "C" {

PEAL_PLAIN_HOOKS(, 1)
PEAL_PLAIN_HOOKS(, 2)
PEAL_PLAIN_HOOKS(, 4)
PEAL_PLAIN_HOOKS(, 8)
PEAL_PLAIN_HOOKS(, 16)
PEAL_PLAIN_HOOKS(unaligned_, 2)
PEAL_PLAIN_HOOKS(unaligned_, 4)
PEAL_PLAIN_HOOKS(unaligned_, 8)
PEAL_PLAIN_HOOKS(unaligned_, 16)
PEAL_VOLATILE_HOOKS(volatile_, 1)
PEAL_VOLATILE_HOOKS(volatile_, 2)
PEAL_VOLATILE_HOOKS(volatile_, 4)
PEAL_VOLATILE_HOOKS(volatile_, 8)
PEAL_VOLATILE_HOOKS(volatile_, 16)
PEAL_VOLATILE_HOOKS(unaligned_volatile_, 2)
PEAL_VOLATILE_HOOKS(unaligned_volatile_, 4)
PEAL_VOLATILE_HOOKS(unaligned_volatile_, 8)
PEAL_VOLATILE_HOOKS(unaligned_volatile_, 16)

void __tsan_read_range(void* address, size_t bytes) {
  if (bytes != 0) tell_read(address, bytes, PEAL_HOOK_PC);
}
void __tsan_write_range(void* address, size_t bytes) {
  if (bytes != 0) tell_write(address, bytes, PEAL_HOOK_PC);
}
void __tsan_vptr_read(void** address) { tell_read(address, sizeof *address, PEAL_HOOK_PC); }
void __tsan_vptr_update(void** address, void*) {
  tell_write(address, sizeof *address, PEAL_HOOK_PC);
}

// Runs before main(), once for each translation unit.
void __tsan_init() { peal::simt::accesses_are_told = true; }
// Whoever observes has the place of each access, and needs no stack of calls.
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}

void* peal_observed_memcpy(void* to, const void* from, size_t bytes) {
  if (bytes != 0) {
    tell_read(from, bytes, PEAL_HOOK_PC);
    tell_write(to, bytes, PEAL_HOOK_PC);
  }
  return std::memcpy(to, from, bytes);
}
void* peal_observed_memmove(void* to, const void* from, size_t bytes) {
  if (bytes != 0) {
    tell_read(from, bytes, PEAL_HOOK_PC);
    tell_write(to, bytes, PEAL_HOOK_PC);
  }
  return std::memmove(to, from, bytes);
}
void* peal_observed_memset(void* to, int value, size_t bytes) {
  if (bytes != 0) tell_write(to, bytes, PEAL_HOOK_PC);
  return std::memset(to, value, bytes);
}

}  // extern "C"
