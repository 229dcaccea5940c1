// SPDX-License-Identifier: Apache-2.0
//
// Read instead of Thrust's file of this name: policies that name a stream. The algorithm waits for
// all streams, and has ended when its call returns.
#pragma once

#include <thrust/system/cpp/execution_policy.h>

#include "simt/runtime/types.h"

THRUST_NAMESPACE_BEGIN
namespace cuda {

struct Par : system::cpp::detail::tag {
  system::cpp::detail::tag on(cudaStream_t) const { return {}; }
};
inline constexpr Par par{};
inline constexpr Par par_nosync{};

}  // namespace cuda
THRUST_NAMESPACE_END
