// SPDX-License-Identifier: Apache-2.0
//
// PE 0's array goes around the ring: each PE waits for it and hands it on. The flag comes behind
// the data because of the fence.
#include "program.cuh"

#define COUNT 4096

__global__ void ring_broadcast(int* data, uint64_t* arrived) {
  const int me = nvshmem_my_pe();
  const int n = nvshmem_n_pes();
  const int next = (me + 1) % n;
  if (me != 0) nvshmem_signal_wait_until(arrived, NVSHMEM_CMP_NE, 0);
  if (next == 0) return;
  nvshmem_int_put(data, data, COUNT, next);
  nvshmem_fence();
  nvshmemx_signal_op(arrived, 1, NVSHMEM_SIGNAL_SET, next);
}

int main() {
  begin();
  int* data = (int*)nvshmem_malloc(COUNT * sizeof(int));
  uint64_t* arrived = (uint64_t*)nvshmem_calloc(1, sizeof(uint64_t));
  fill(data, COUNT, [](int i) { return nvshmem_my_pe() == 0 ? 3 * i + 1 : -1; });
  nvshmem_barrier_all();

  ring_broadcast<<<1, 1>>>(data, arrived);
  CUDA_CHECK(cudaDeviceSynchronize());
  nvshmem_barrier_all();

  const bool ok = holds(data, COUNT, [](int i) { return 3 * i + 1; });
  const int failed = verdict("ring_broadcast", ok);
  nvshmem_free(arrived);
  nvshmem_free(data);
  nvshmem_finalize();
  return failed;
}
