// SPDX-License-Identifier: Apache-2.0
//
// Kernels as programs of NVSHMEM's have them, of relocatable code (-rdc=true), for
// registers_test.py.
#include <nvshmem.h>
#include <nvshmemx.h>

namespace {

/// Keeps what a solver keeps in registers over a call.
template <class Send>
__device__ void sweep(float* next, const float* now, float* norm, int n, const Send& send) {
  float sum = 0;
  for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x + 1; i < static_cast<unsigned>(n) - 1;
       i += gridDim.x * blockDim.x) {
    const float value = 0.25f * (now[i - 1] + now[i + 1] + now[i - n] + now[i + n]);
    next[i] = value;
    send(i, value);
    sum += (value - now[i]) * (value - now[i]);
  }
  atomicAdd(norm, sum);
}

}  // namespace

extern "C" __global__ void sweep_by_p(float* next, const float* now, float* norm, int n, int pe) {
  sweep(next, now, norm, n, [&](unsigned i, float value) { nvshmem_float_p(next + i, value, pe); });
}
extern "C" __global__ void sweep_by_put(float* next, const float* now, float* norm, int n, int pe) {
  sweep(next, now, norm, n, [&](unsigned i, float) {
    nvshmemx_float_put_nbi_block(next + i, now + i, blockDim.x, pe);
  });
}
extern "C" __global__ void put_signal_block(int* to, const int* from, size_t n, uint64_t* word,
                                            int pe) {
  nvshmemx_int_put_signal_nbi_block(to, from, n, word, 1, NVSHMEM_SIGNAL_ADD, pe);
}
extern "C" __global__ void getmem_warp(int* to, const int* from, size_t n, int pe) {
  nvshmemx_getmem_warp(to, from, n, pe);
}
extern "C" __global__ void iget_block(int* to, const int* from, size_t n, int pe) {
  nvshmemx_int_iget_block(to, from, 2, 2, n, pe);
}
extern "C" __global__ void quiet() { nvshmem_quiet(); }
