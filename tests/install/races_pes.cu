// SPDX-License-Identifier: Apache-2.0
//
// PE 1 puts, and PE 0 takes the last word of the data for the signal; with -DRIGHT it waits for the
// signal.
#include <nvshmem.h>
#include <nvshmemx.h>

#include <cstdio>

__global__ void poll(int* box, const int* source, uint64_t* flag, int* seen) {
  if (nvshmem_my_pe() == 1) {
    nvshmem_int_put_signal(box, source, 64, flag, 1, NVSHMEM_SIGNAL_SET, 0);
  } else {
#ifdef RIGHT
    nvshmem_signal_wait_until(flag, NVSHMEM_CMP_EQ, 1);
#else
    while (*(volatile int*)&box[63] == 0) __nanosleep(100);
#endif
    *seen = box[0];  // poll
  }
}

int main() {
  nvshmem_init();
  auto* box = (int*)nvshmem_calloc(64, sizeof(int));
  auto* source = (int*)nvshmem_malloc(64 * sizeof(int));
  auto* seen = (int*)nvshmem_malloc(sizeof(int));
  auto* flag = (uint64_t*)nvshmem_calloc(1, sizeof(uint64_t));
  for (int i = 0; i < 64; ++i) source[i] = 7;
  nvshmem_barrier_all();
  poll<<<1, 1>>>(box, source, flag, seen);
  cudaDeviceSynchronize();
  nvshmem_barrier_all();
  if (nvshmem_my_pe() == 0) printf("seen: %d\n", *seen);
  nvshmem_finalize();
}
