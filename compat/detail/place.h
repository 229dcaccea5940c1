// SPDX-License-Identifier: Apache-2.0
//
// Where a call is made: in a kernel or on the host. Beside state.h the one file of compat/ that
// asks the compiler.
//
//   PEAL_HD void nvshmem_quiet() { PEAL_COMPAT_BY_PLACE(in a kernel, on the host); }
//
// nvcc reads such a function twice, once for either place. g++ reads it once, and a lane of simt
// knows what it is.
#pragma once

#if __cplusplus < 202002L
#error "nvshmem.h of peal needs C++20: compile with -std=c++20"
#endif

#include "device/base/target.h"

#if PEAL_ON_GPU
#define PEAL_COMPAT_BY_PLACE(in_kernel, on_host) return in_kernel
#elif PEAL_CUDA
#define PEAL_COMPAT_BY_PLACE(in_kernel, on_host) return on_host
#else
#include "simt/lanes/lane.h"
#define PEAL_COMPAT_BY_PLACE(in_kernel_, on_host)   \
  if (::peal::simt::in_kernel()) return in_kernel_; \
  return on_host
#endif

// In front of each of the thousands of calls that tables make: a template, so that a compiler looks
// at the body of those alone that a program calls. A program calls it like any function.
#define PEAL_COMPAT_LAZY template <int = 0>

// The types of CUDA that calls take. CUDA's own headers may be read before or after this one.
struct CUstream_st;
typedef struct CUstream_st* cudaStream_t;
struct CUmod_st;
struct CUlib_st;

#if defined(__CUDACC__)  // nvcc, or peal-cc for a CPU
#include <cuda_bf16.h>
#include <cuda_fp16.h>
/// The 16-bit reals, where the compiler has CUDA's types for them.
#define PEAL_COMPAT_HALF_TYPES(X) X(half, __half) X(bfloat16, __nv_bfloat16)
/// They, and peal's of the same bits.
#define PEAL_COMPAT_HALF_ELEMENTS(X) X(__half, Half) X(__nv_bfloat16, BFloat16)
#else
#define PEAL_COMPAT_HALF_TYPES(X)
#define PEAL_COMPAT_HALF_ELEMENTS(X)
#endif
