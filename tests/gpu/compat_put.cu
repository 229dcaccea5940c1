// SPDX-License-Identifier: Apache-2.0
//
// The same calls by NVSHMEM's names and by peal's, for compat_put_test.py.
#include <nvshmem.h>
#include <nvshmemx.h>

using peal::Context;

extern "C" {

__global__ void compat_put(int* dst, const int* src, size_t n, int pe) {
  nvshmem_int_put(dst, src, n, pe);
}
__global__ void native_put(Context ctx, int* dst, const int* src, size_t n, int pe) {
  (void)peal::put(ctx, dst, src, n, pe);
}

__global__ void compat_put_nbi(int* dst, const int* src, size_t n, int pe) {
  nvshmem_int_put_nbi(dst, src, n, pe);
}
__global__ void native_put_nbi(Context ctx, int* dst, const int* src, size_t n, int pe) {
  (void)peal::put_nbi(ctx, dst, src, n, pe);
}

__global__ void compat_put_block(int* dst, const int* src, size_t n, int pe) {
  nvshmemx_int_put_block(dst, src, n, pe);
}
__global__ void native_put_block(Context ctx, int* dst, const int* src, size_t n, int pe) {
  (void)peal::put(ctx, peal::block, dst, src, n, pe);
}

__global__ void compat_p(int* dst, int value, int pe) { nvshmem_int_p(dst, value, pe); }
__global__ void native_p(Context ctx, int* dst, int value, int pe) {
  (void)peal::p(ctx, dst, value, pe);
}

__global__ void compat_put_signal(int* dst, const int* src, size_t n, uint64_t* flag, int pe) {
  nvshmemx_int_put_signal_nbi_block(dst, src, n, flag, 1, NVSHMEM_SIGNAL_ADD, pe);
}
__global__ void native_put_signal(Context ctx, int* dst, const int* src, size_t n, uint64_t* flag,
                                  int pe) {
  (void)peal::put_signal_nbi(ctx, peal::block, dst, src, n, peal::Signal::add(flag, 1, pe));
}

__global__ void compat_atomic_add(int* dst, int value, int pe) {
  nvshmem_int_atomic_add(dst, value, pe);
}
__global__ void native_atomic_add(Context ctx, int* dst, int value, int pe) {
  (void)peal::atomic_add(ctx, dst, value, pe);
}

}  // extern "C"
