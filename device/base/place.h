// SPDX-License-Identifier: Apache-2.0
//
// Where a caller is, for messages: the kernel, its block and thread, the line of the program. A CPU
// knows all of it, a GPU block and thread, the host of a GPU nothing. And whose doing it is what a
// lane of a CPU loads and stores.
#pragma once

#include <cstdint>

#include "device/base/scope.h"
#include "device/base/target.h"

#if !PEAL_CUDA
#include "simt/lanes/place.h"
#endif

namespace peal {

/// The caller as a `Name` of kernel, block and thread; 0 stands for what nobody knows.
template <class Name>
PEAL_HD Name lane_as() {
#if PEAL_ON_GPU
  return {0, block_in_grid(), thread_in_block()};
#elif PEAL_CUDA
  return {};
#else
  return {reinterpret_cast<uint64_t>(simt::kernel()), block_in_grid(), thread_in_block()};
#endif
}

/// The line of the kernel that is being executed; 0 where nobody knows.
PEAL_HD uint64_t this_place() {
#if PEAL_CUDA
  return 0;
#else
  return simt::place_here();
#endif
}

/// Between the two what the lane loads and stores is the library's doing, not the kernel's.
PEAL_HD void enter_library() {
#if !PEAL_CUDA
  simt::enter_library();
#endif
}
PEAL_HD void leave_library() {
#if !PEAL_CUDA
  simt::leave_library();
#endif
}

}  // namespace peal
