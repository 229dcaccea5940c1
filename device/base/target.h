// SPDX-License-Identifier: Apache-2.0
//
// The compiler question, asked once.
//
// clang-format off
//   PEAL_HD            a function of the host and of kernels, inlined
//   PEAL_DEVICE        a function of kernels only, inlined
//   PEAL_COLD          as PEAL_HD, off the fast path: a template, never inlined
//   PEAL_DEVICE_COLD   as PEAL_DEVICE, off the fast path, never inlined
//   PEAL_APART         as PEAL_HD, a template that many call: in relocatable code never inlined
//   PEAL_KERNEL        a kernel's entry point
//   PEAL_KERNEL PEAL_MAX_THREADS(1024) name(...)    one that must run with blocks that large
// clang-format on
//
// A kernel runs on a GPU (nvcc) or on the CPU (simt, plain g++). Nothing outside device/base asks
// which.
#pragma once

#if defined(__cplusplus) && __cplusplus < 202002L
#error "peal needs C++20: compile with -std=c++20"
#endif

// peal-cc (simt/cc), too, says that it compiles CUDA; it does so for a CPU.
#if defined(__CUDACC__) && !defined(__PEAL_CC__)
#define PEAL_CUDA 1
#define PEAL_HD __host__ __device__ __forceinline__
#define PEAL_DEVICE __device__ __forceinline__
#define PEAL_KERNEL __global__ void
#define PEAL_MAX_THREADS(threads) __launch_bounds__(threads)
// -rdc=true, as programs of NVSHMEM's are compiled; __maxnreg__ came with CUDA 12.4.
#if defined(__CUDACC_RDC__) && __CUDACC_VER_MAJOR__ * 100 + __CUDACC_VER_MINOR__ >= 1204
#define PEAL_RELOCATABLE 1
#define PEAL_COLD_LINKAGE static  // else ptxas does not hold them to few registers (call.h)
#else
#define PEAL_RELOCATABLE 0
#define PEAL_COLD_LINKAGE
#endif
#define PEAL_DEVICE_COLD PEAL_COLD_LINKAGE __device__ __noinline__
#if defined(__CUDA_ARCH__)
#define PEAL_UNROLL _Pragma("unroll")
#define PEAL_NO_UNROLL _Pragma("unroll 1")
#else  // the host's compiler, which does not know them
#define PEAL_UNROLL
#define PEAL_NO_UNROLL
#endif
#define PEAL_COLD PEAL_COLD_LINKAGE __host__ __device__ __noinline__
// There a call takes no registers of the kernel (call.h), and all kernels of a file share what is
// called; elsewhere ptxas compiles it once for each of them.
#if PEAL_RELOCATABLE
#define PEAL_APART PEAL_COLD
#else
#define PEAL_APART PEAL_HD
#endif
#else
#define PEAL_CUDA 0
#define PEAL_RELOCATABLE 0
#define PEAL_HD inline
#define PEAL_DEVICE inline
#if defined(__PEAL_CC__)
#define PEAL_KERNEL inline __global__ void
#else
#define PEAL_KERNEL inline void
#endif
#define PEAL_MAX_THREADS(threads)
#define PEAL_DEVICE_COLD [[gnu::noinline, gnu::cold]]
#define PEAL_UNROLL _Pragma("GCC unroll 8")
#define PEAL_NO_UNROLL  // g++ unrolls none by itself, and knows the pragma ahead of simple loops
                        // alone
#define PEAL_COLD [[gnu::noinline, gnu::cold]]
#define PEAL_APART PEAL_HD
#endif

// Whether a member of a type lies at an offset, for static_assert. NVRTC has no constant offsetof;
// what the host's compiler asserts holds for kernels, too.
#if defined(__CUDACC_RTC__)
#define PEAL_LIES_AT(type, member, bytes) true
#else
#define PEAL_LIES_AT(type, member, bytes) (offsetof(type, member) == (bytes))
#endif

// True in programs that simulate weak memory (docs/simulation.md): a compiler option of theirs.
#if !defined(PEAL_SIM)
#define PEAL_SIM 0
#endif

// True while the code being compiled will execute on a GPU.
#if defined(__CUDA_ARCH__)
#define PEAL_ON_GPU 1
#else
#define PEAL_ON_GPU 0
#endif

namespace peal {

/// The same pointer; the compiler does not know how it was computed, and computes no other ahead of
/// it from the same values.
template <class T>
PEAL_HD T* as_new(T* pointer) {
#if PEAL_ON_GPU
  asm("" : "+l"(pointer));
#endif
  return pointer;
}

}  // namespace peal
