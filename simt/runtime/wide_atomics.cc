// SPDX-License-Identifier: Apache-2.0
#include "simt/runtime/wide_atomics.h"

namespace peal::simt::cuda {

// By __sync and not by __atomic, of which g++ makes a call of another library.
#ifdef __x86_64__
__attribute__((target("cx16")))
#endif
Uint128
compare_and_swap(Uint128* address, Uint128 compare, Uint128 value) {
  return __sync_val_compare_and_swap(address, compare, value);
}

}  // namespace peal::simt::cuda
