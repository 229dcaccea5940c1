// SPDX-License-Identifier: Apache-2.0
//
// How a hook tells of its access.
//
// Invariant: nothing here or in a hook calls an inline function with a name of its own: the linker
// may have taken that from a kernel's translation unit, where it calls a hook.
#pragma once

#include <cstddef>

#include "simt/lanes/plain_access.h"

namespace peal::simt::hooks {

// Where the hook was called; the address it returns to may be the next line's.
#define PEAL_HOOK_PC (static_cast<const char*>(__builtin_return_address(0)) - 1)

[[gnu::always_inline]] static inline void tell(const PlainAccess& access) {
  const bool observed = __atomic_load_n(&access_observer, __ATOMIC_RELAXED) != nullptr;
  if (__builtin_expect(observed, 0)) tell_access(access);
}

[[gnu::always_inline]] static inline const void* plain(const volatile void* address) {
  return const_cast<const void*>(address);
}

[[gnu::always_inline]] static inline void tell_read(const volatile void* address, size_t bytes,
                                                    const void* pc) {
  tell({plain(address), bytes, /*write=*/false, /*atomic=*/false, 0, pc});
}

[[gnu::always_inline]] static inline void tell_write(const volatile void* address, size_t bytes,
                                                     const void* pc) {
  tell({plain(address), bytes, /*write=*/true, /*atomic=*/false, 0, pc});
}

}  // namespace peal::simt::hooks
