// SPDX-License-Identifier: Apache-2.0
//
// What a program of peal-cc --race has besides its own code; peal-cc compiles it into each.
#include <stdlib.h>

#include <cstdint>

// Open MPI was not built with ThreadSanitizer, which takes what its threads do for mistakes. Its
// parts are unloaded at the end, so called_from_lib, which would be quicker, is not for them.
#define PEAL_NOT_OURS(library) \
  "race:" library              \
  "\n"                         \
  "mutex:" library             \
  "\n"                         \
  "deadlock:" library          \
  "\n"                         \
  "thread:" library "\n"

extern "C" const char* __tsan_default_suppressions() {
  return PEAL_NOT_OURS("/libmpi*.so") PEAL_NOT_OURS("/libopen-*.so") PEAL_NOT_OURS("/mca_*.so")
      PEAL_NOT_OURS("/libpmix.so") PEAL_NOT_OURS("/libevent_*.so");
}

// What another process stores is not seen, but what this process's NIC stores for it is: PEs that
// are processes go by the NIC, unless the user says otherwise.
[[gnu::constructor(101)]] static void go_by_the_nic() { ::setenv("PEAL_TRANSPORT", "ibgda", 0); }

// Volatile accesses are relaxed atomics in CUDA: two of them are no race, and they order nothing.
// g++ calls these ahead of them. ThreadSanitizer leaves frames of such a file out of its summary.
#line 1 "tsan_interface_volatile.cc"
#define PEAL_VOLATILE(bytes, T)                                                                \
  void __tsan_volatile_read##bytes(T* address) { __atomic_load_n(address, __ATOMIC_RELAXED); } \
  void __tsan_volatile_write##bytes(T* address) {                                              \
    __atomic_fetch_add(address, T{0}, __ATOMIC_RELAXED);                                       \
  }

extern "C" {

PEAL_VOLATILE(1, uint8_t)
PEAL_VOLATILE(2, uint16_t)
PEAL_VOLATILE(4, uint32_t)
PEAL_VOLATILE(8, uint64_t)

void __tsan_volatile_read16(uint64_t* address) {
  __tsan_volatile_read8(address);
  __tsan_volatile_read8(address + 1);
}
void __tsan_volatile_write16(uint64_t* address) {
  __tsan_volatile_write8(address);
  __tsan_volatile_write8(address + 1);
}

}  // extern "C"
