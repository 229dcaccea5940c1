// SPDX-License-Identifier: Apache-2.0
//
// Memory that the program allocated, as the source of puts and the destination of gets: registered
// first, so that a NIC may read and write it.
#include "program.cuh"

#define COUNT 2048

__global__ void exchange(int* box, int* own, int next) {
  nvshmemx_int_put_block(box, own, COUNT, next);
  nvshmemx_barrier_all_block();
  nvshmemx_int_get_block(own, box, COUNT, next);
}

int main() {
  begin();
  const int me = nvshmem_my_pe();
  const int n = nvshmem_n_pes();
  const size_t bytes = COUNT * sizeof(int);
  int* box = (int*)nvshmem_malloc(bytes);
  int* own = NULL;
  CUDA_CHECK(cudaMalloc((void**)&own, bytes));
  bool ok = nvshmemx_buffer_register(own, bytes) == 0;
  fill(own, COUNT, [=](int i) { return me * COUNT + i; });
  nvshmem_barrier_all();

  exchange<<<1, 128>>>(box, own, (me + 1) % n);
  CUDA_CHECK(cudaDeviceSynchronize());

  // The next PE's box holds what this PE sent.
  ok = ok && holds(own, COUNT, [=](int i) { return me * COUNT + i; });
  ok = ok && holds(box, COUNT, [=](int i) { return (me + n - 1) % n * COUNT + i; });
  const int failed = verdict("user_buffer", ok);
  nvshmemx_buffer_unregister(own);
  nvshmem_free(box);
  nvshmem_finalize();
  CUDA_CHECK(cudaFree(own));
  return failed;
}
