// SPDX-License-Identifier: Apache-2.0
//
// Read in front of Thrust's file of this name, where an installed CCCL is used. Thrust's device is
// this CPU; each of its algorithms asks strip_const() for its policy first, and there it waits for
// what streams were given before, as it would on a GPU's default stream.
#pragma once

#include_next <thrust/detail/execution_policy.h>

#include <type_traits>

#include "simt/lanes/lane.h"
#include "simt/runtime/devices.h"

THRUST_NAMESPACE_BEGIN
namespace detail {

/// More constrained than Thrust's own, so it is the one that is called.
template <class Policy>
requires(sizeof(Policy*) != 0) constexpr execution_policy_base<Policy>& strip_const(
    const execution_policy_base<Policy>& policy) {
  if (!std::is_constant_evaluated() && !::peal::simt::in_kernel()) {
    ::peal::simt::cuda::calls::cudaDeviceSynchronize();
  }
  return const_cast<execution_policy_base<Policy>&>(policy);
}

}  // namespace detail
THRUST_NAMESPACE_END
