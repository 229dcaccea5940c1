// SPDX-License-Identifier: Apache-2.0
//
// Jacobi steps on rows that are dealt to the PEs: one kernel makes all steps, and its blocks give
// the outer rows to the neighbours themselves. Started so that all blocks run at a time.
#include <math.h>

#include "program.cuh"

#define WIDTH 64
#define ROWS 16  // of each PE
#define STEPS 20

// `grid` has ROWS + 2 rows, twice: the first and the last are the neighbours'. flags[0] counts rows
// from above, flags[1] from below, flags[2] the blocks that are done with a step.
__global__ void jacobi(float* grid, uint64_t* flags, int steps) {
  const int me = nvshmem_my_pe();
  const int n = nvshmem_n_pes();
  const int size = (ROWS + 2) * WIDTH;
  for (int step = 0; step < steps; ++step) {
    const float* old = grid + step % 2 * size;
    float* fresh = grid + (step + 1) % 2 * size;
    for (int row = 1 + blockIdx.x; row <= ROWS; row += gridDim.x) {
      for (int x = 1 + threadIdx.x; x < WIDTH - 1; x += blockDim.x) {
        const float* at = old + row * WIDTH + x;
        fresh[row * WIDTH + x] = 0.25f * (at[-1] + at[1] + at[-WIDTH] + at[WIDTH]);
      }
      __syncthreads();
      if (row == 1 && me > 0) {
        nvshmemx_float_put_signal_nbi_block(fresh + (ROWS + 1) * WIDTH, fresh + WIDTH, WIDTH,
                                            flags + 1, 1, NVSHMEM_SIGNAL_ADD, me - 1);
      }
      if (row == ROWS && me < n - 1) {
        nvshmemx_float_put_signal_nbi_block(fresh, fresh + ROWS * WIDTH, WIDTH, flags, 1,
                                            NVSHMEM_SIGNAL_ADD, me + 1);
      }
    }
    // All blocks of this PE, and the rows of both neighbours.
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
      const uint64_t now = (uint64_t)(step + 1);
      nvshmem_uint64_atomic_inc(flags + 2, me);
      nvshmem_quiet();
      nvshmem_uint64_wait_until(flags + 2, NVSHMEM_CMP_GE, now * gridDim.x);
      if (me > 0) nvshmem_signal_wait_until(flags, NVSHMEM_CMP_GE, now);
      if (me < n - 1) nvshmem_signal_wait_until(flags + 1, NVSHMEM_CMP_GE, now);
    }
    __syncthreads();
  }
}

// What it starts from, anywhere in the whole grid.
static float begin_value(int row, int x) { return (float)((row * 13 + x * 7) % 32); }

int main() {
  begin();
  const int me = nvshmem_my_pe();
  const int n = nvshmem_n_pes();
  const int size = (ROWS + 2) * WIDTH;
  float* grid = (float*)nvshmem_malloc(2 * size * sizeof(float));
  uint64_t* flags = (uint64_t*)nvshmem_calloc(3, sizeof(uint64_t));

  // The same by the host, on the whole grid.
  std::vector<float> whole[2];
  for (int copy = 0; copy < 2; ++copy) {
    whole[copy].resize((n * ROWS + 2) * WIDTH);
    for (int row = 0; row < n * ROWS + 2; ++row) {
      for (int x = 0; x < WIDTH; ++x) whole[copy][row * WIDTH + x] = begin_value(row, x);
    }
  }
  for (int copy = 0; copy < 2; ++copy) {
    CUDA_CHECK(cudaMemcpy(grid + copy * size, &whole[copy][me * ROWS * WIDTH], size * sizeof(float),
                          cudaMemcpyHostToDevice));
  }
  for (int step = 0; step < STEPS; ++step) {
    const std::vector<float>& old = whole[step % 2];
    std::vector<float>& fresh = whole[(step + 1) % 2];
    for (int row = 1; row <= n * ROWS; ++row) {
      for (int x = 1; x < WIDTH - 1; ++x) {
        const int at = row * WIDTH + x;
        fresh[at] = 0.25f * (old[at - 1] + old[at + 1] + old[at - WIDTH] + old[at + WIDTH]);
      }
    }
  }
  nvshmem_barrier_all();

  int steps = STEPS;
  void* args[] = {&grid, &flags, &steps};
  int most = 0;
  nvshmemx_collective_launch_query_gridsize((const void*)jacobi, 64, args, 0, &most);
  dim3 blocks(most < 4 ? most : 4);
  dim3 threads(64);
  bool ok = nvshmemx_collective_launch((const void*)jacobi, blocks, threads, args, 0, 0) == 0;
  CUDA_CHECK(cudaDeviceSynchronize());

  std::vector<float> mine(size);
  CUDA_CHECK(cudaMemcpy(mine.data(), grid + STEPS % 2 * size, size * sizeof(float),
                        cudaMemcpyDeviceToHost));
  for (int row = 1; row <= ROWS; ++row) {
    for (int x = 0; x < WIDTH; ++x) {
      const float wanted = whole[STEPS % 2][(me * ROWS + row) * WIDTH + x];
      ok = ok && fabsf(mine[row * WIDTH + x] - wanted) < 1e-3f;
    }
  }
  const int failed = verdict("halo", ok);
  nvshmem_free(flags);
  nvshmem_free(grid);
  nvshmem_finalize();
  return failed;
}
