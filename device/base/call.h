// SPDX-License-Identifier: Apache-2.0
//
// Calls of what is off the fast path.
//
// ptxas gives a function that it sees called the registers that the caller leaves, and the caller
// those that the function leaves: a kernel with a rare, large callee then keeps its loop variables
// on the stack, and with 32 warps each of those costs 32 cycles a turn. Through a pointer a call is
// by convention: the callee saves what it uses, when it is called. It has its price, too: ptxas
// compiles every function that is called so once more for every kernel that calls any.
#pragma once

#include <type_traits>

#include "device/base/target.h"

namespace peal {

/// Calls `function`, a PEAL_COLD one, so that the kernel around pays only when it happens.
template <class Answer, class... Parameters>
PEAL_DEVICE Answer call_cold(Answer (*function)(Parameters...),
                             std::type_identity_t<Parameters>... arguments) {
#if PEAL_ON_GPU
  asm volatile("" : "+l"(function));  // the compiler shall not know which function it is
#endif
  return function(arguments...);
}

}  // namespace peal
