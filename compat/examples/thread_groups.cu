// SPDX-License-Identifier: Apache-2.0
//
// One sum over all PEs, made by one thread, by a warp and by a block: three calls, one result. And
// gets of different PEs by the warps of a block.
#include "program.cuh"

#define COUNT 32
#define WARPS 4

__global__ void sums(int* by_thread, int* by_warp, int* by_block, int* mine) {
  const int me = nvshmem_my_pe();
  if (threadIdx.x < COUNT) mine[threadIdx.x] = me * COUNT + (int)threadIdx.x;
  __syncthreads();
  if (threadIdx.x == 0) nvshmem_int_sum_reduce(NVSHMEM_TEAM_WORLD, by_thread, mine, COUNT);
  __syncthreads();
  if (threadIdx.x < 32) nvshmemx_int_sum_reduce_warp(NVSHMEM_TEAM_WORLD, by_warp, mine, COUNT);
  __syncthreads();
  nvshmemx_int_sum_reduce_block(NVSHMEM_TEAM_WORLD, by_block, mine, COUNT);
}

// Warp w fetches the array of PE (me + w) % n.
__global__ void fetch(int* got, const int* mine) {
  const int warp = threadIdx.x / 32;
  const int pe = (nvshmem_my_pe() + warp) % nvshmem_n_pes();
  nvshmemx_int_get_warp(got + warp * COUNT, mine, COUNT, pe);
}

int main() {
  begin();
  const int me = nvshmem_my_pe();
  const int n = nvshmem_n_pes();
  int* all = (int*)nvshmem_malloc((4 + WARPS) * COUNT * sizeof(int));
  int* mine = all + 3 * COUNT;
  int* got = all + 4 * COUNT;

  sums<<<1, 32 * WARPS>>>(all, all + COUNT, all + 2 * COUNT, mine);
  fetch<<<1, 32 * WARPS>>>(got, mine);
  CUDA_CHECK(cudaDeviceSynchronize());

  bool ok = holds(all, 3 * COUNT, [=](int i) { return n * (i % COUNT) + COUNT * n * (n - 1) / 2; });
  ok = ok &&
       holds(got, WARPS * COUNT, [=](int i) { return (me + i / COUNT) % n * COUNT + i % COUNT; });
  const int failed = verdict("thread_groups", ok);
  nvshmem_free(all);
  nvshmem_finalize();
  return failed;
}
