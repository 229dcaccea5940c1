// SPDX-License-Identifier: Apache-2.0
//
// PE 0's array goes around the ring: each PE waits for it and hands it on. The flag comes behind
// the data because of the fence.
#include <vector>

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
  std::vector<int> host(COUNT);
  for (int i = 0; i < COUNT; ++i) host[i] = nvshmem_my_pe() == 0 ? 3 * i + 1 : -1;
  CUDA_CHECK(cudaMemcpy(data, host.data(), COUNT * sizeof(int), cudaMemcpyHostToDevice));
  nvshmem_barrier_all();

  ring_broadcast<<<1, 1>>>(data, arrived);
  CUDA_CHECK(cudaDeviceSynchronize());
  nvshmem_barrier_all();

  CUDA_CHECK(cudaMemcpy(host.data(), data, COUNT * sizeof(int), cudaMemcpyDeviceToHost));
  bool ok = true;
  for (int i = 0; i < COUNT; ++i) ok = ok && host[i] == 3 * i + 1;
  const int failed = verdict("ring_broadcast", ok);
  nvshmem_free(arrived);
  nvshmem_free(data);
  nvshmem_finalize();
  return failed;
}
