// SPDX-License-Identifier: Apache-2.0
//
// Cooperative groups: a grid that meets between its steps, tiles that reduce and vote, coalesced
// threads that count themselves with one atomic.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>

#include "tests/cuda_programs/check.h"

namespace cg = cooperative_groups;

constexpr int kCount = 1024;

__device__ int count_together(int* counter) {
  const cg::coalesced_group active = cg::coalesced_threads();
  int first = 0;
  if (active.thread_rank() == 0) first = atomicAdd(counter, (int)active.size());
  return active.shfl(first, 0) + (int)active.thread_rank();
}

__global__ void sum_of_odd(const int* data, int* partial, int* kept, int* counter, int* sum) {
  const cg::grid_group grid = cg::this_grid();
  const cg::thread_block block = cg::this_thread_block();
  const auto tile = cg::tiled_partition<16>(block);
  int mine = 0;
  for (int i = grid.thread_rank(); i < kCount; i += grid.size()) {
    mine += data[i];
    if (data[i] % 2 != 0) kept[count_together(counter)] = data[i];
  }
  mine = cg::reduce(tile, mine, cg::plus<int>());
  const int tiles = block.size() / tile.size();
  if (tile.thread_rank() == 0) {
    partial[block.group_index().x * tiles + tile.meta_group_rank()] = mine;
  }
  grid.sync();
  if (grid.thread_rank() == 0) {
    *sum = 0;
    for (int i = 0; i < gridDim.x * tiles; ++i) *sum += partial[i];
  }
}

int main() {
  int *data, *partial, *kept, *counter, *sum, expected = 0, odd = 0, odd_sum = 0, kept_sum = 0;
  CHECK(cudaMallocManaged(&data, kCount * sizeof(int)));
  CHECK(cudaMalloc(&partial, 64 * sizeof(int)));
  CHECK(cudaMallocManaged(&kept, kCount * sizeof(int)));
  CHECK(cudaMallocManaged(&counter, sizeof(int)));
  CHECK(cudaMallocManaged(&sum, sizeof(int)));
  for (int i = 0; i < kCount; ++i) {
    expected += data[i] = i * 37 % 101;
    odd += data[i] % 2;
    odd_sum += data[i] % 2 ? data[i] : 0;
  }
  *counter = 0;
  int meets = 0;
  CHECK(cudaDeviceGetAttribute(&meets, cudaDevAttrCooperativeLaunch, 0));
  EXPECT(meets == 1);
  void* arguments[] = {&data, &partial, &kept, &counter, &sum};
  CHECK(cudaLaunchCooperativeKernel((void*)sum_of_odd, dim3(4), dim3(64), arguments, 0, nullptr));
  CHECK(cudaDeviceSynchronize());
  for (int i = 0; i < *counter; ++i) kept_sum += kept[i];
  EXPECT(*sum == expected && *counter == odd && kept_sum == odd_sum);
  return verdict("groups");
}
