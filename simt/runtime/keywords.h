// SPDX-License-Identifier: Apache-2.0
//
// The words that CUDA adds to C++ and that mean nothing on a CPU: every function is the host's and
// a kernel's, every object is seen by both.
#pragma once

#define __host__
#define __device__
#define __constant__
#define __managed__
#define __grid_constant__
#define __launch_bounds__(...)
#define __maxnreg__(registers)
#define __forceinline__ inline __attribute__((always_inline))
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __builtin_align__(bytes) __attribute__((aligned(bytes)))
