// SPDX-License-Identifier: Apache-2.0
//
// Memory that the program allocated on every PE, as symmetric memory.
#include "program.cuh"

#define COUNT (1 << 20)

__global__ void send(int* box, const int* mine, int next) {
  nvshmemx_int_put_block(box, mine, 512, next);
}

int main() {
  begin();
  const int me = nvshmem_my_pe();
  const int n = nvshmem_n_pes();
  const size_t bytes = COUNT * sizeof(int);
  int* own = NULL;
  CUDA_CHECK(cudaMalloc((void**)&own, bytes));
  int* box = (int*)nvshmemx_buffer_register_symmetric(own, bytes, 0);
  int* mine = (int*)nvshmem_malloc(512 * sizeof(int));
  fill(mine, 512, [=](int i) { return me * 512 + i; });
  bool ok = box != NULL;
  nvshmem_barrier_all();

  if (ok) send<<<1, 64>>>(box, mine, (me + 1) % n);
  CUDA_CHECK(cudaDeviceSynchronize());
  nvshmem_barrier_all();

  ok = ok && holds(own, 512, [=](int i) { return (me + n - 1) % n * 512 + i; });
  const int failed = verdict("user_buffer_symmetric", ok);
  if (box != NULL) nvshmemx_buffer_unregister_symmetric(box, bytes);
  nvshmem_free(mine);
  nvshmem_finalize();
  CUDA_CHECK(cudaFree(own));
  return failed;
}
