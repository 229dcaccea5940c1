// SPDX-License-Identifier: Apache-2.0
//
// PEs in rows of two: a sum along each row and a broadcast down each column, in one kernel.
#include "program.cuh"

#define COUNT 8

__global__ void rows_and_columns(nvshmem_team_t row, nvshmem_team_t column, int* sum, int* mine,
                                 int* down) {
  const int i = threadIdx.x;
  if (i < COUNT) mine[i] = nvshmem_my_pe() * 100 + i;
  __syncthreads();
  nvshmemx_int_sum_reduce_block(row, sum, mine, COUNT);
  nvshmemx_int_broadcast_block(column, down, sum, COUNT, 0);
}

int main() {
  begin();
  const int me = nvshmem_my_pe();
  const int n = nvshmem_n_pes();
  nvshmem_team_t row = NVSHMEM_TEAM_INVALID;
  nvshmem_team_t column = NVSHMEM_TEAM_INVALID;
  nvshmem_team_config_t config = {};
  bool ok =
      nvshmem_team_split_2d(NVSHMEM_TEAM_WORLD, 2, &config, 0, &row, &config, 0, &column) == 0;
  int* memory = (int*)nvshmem_malloc(3 * COUNT * sizeof(int));

  rows_and_columns<<<1, 32>>>(row, column, memory, memory + COUNT, memory + 2 * COUNT);
  CUDA_CHECK(cudaDeviceSynchronize());

  // What the first row summed up, which came down this column.
  const int members = n < 2 ? n : 2;
  ok = ok && holds(memory + 2 * COUNT, COUNT,
                   [=](int i) { return members * i + (members == 2 ? 100 : 0); });
  const int first = nvshmem_team_translate_pe(column, 0, NVSHMEM_TEAM_WORLD);
  ok = ok && first == me % 2 && nvshmem_team_my_pe(row) == me % 2;
  const int failed = verdict("teams", ok);
  nvshmem_team_destroy(row);
  nvshmem_team_destroy(column);
  nvshmem_free(memory);
  nvshmem_finalize();
  return failed;
}
