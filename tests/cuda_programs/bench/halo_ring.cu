// SPDX-License-Identifier: Apache-2.0
//
// Several PEs, by NVSHMEM's calls: each smooths its part of a ring of numbers and puts its borders
// into the halos of both neighbours, with a signal behind them.
#include <math.h>
#include <nvshmem.h>
#include <nvshmemx.h>

#include <vector>

#include "tests/cuda_programs/check.h"

constexpr int kPart = 64, kSteps = 10;

// [0] and [kPart + 1] are the halos.
__global__ void smooth(float* in, float* out, uint64_t* signals, int steps) {
  const int me = nvshmem_my_pe(), n = nvshmem_n_pes(), i = threadIdx.x + 1;
  for (int step = 1; step <= steps; ++step) {
    if (threadIdx.x == 0) {
      nvshmem_float_put_signal(&in[kPart + 1], &in[1], 1, &signals[1], step, NVSHMEM_SIGNAL_SET,
                               (me + n - 1) % n);
      nvshmem_float_put_signal(&in[0], &in[kPart], 1, &signals[0], step, NVSHMEM_SIGNAL_SET,
                               (me + 1) % n);
      nvshmem_signal_wait_until(&signals[0], NVSHMEM_CMP_GE, step);
      nvshmem_signal_wait_until(&signals[1], NVSHMEM_CMP_GE, step);
    }
    __syncthreads();
    out[i] = 0.25f * in[i - 1] + 0.5f * in[i] + 0.25f * in[i + 1];
    nvshmemx_barrier_all_block();  // halos are read before the next ones come
    in[i] = out[i];
    __syncthreads();
  }
}

int main() {
  nvshmem_init();
  const int me = nvshmem_my_pe(), n = nvshmem_n_pes();
  float* const in = (float*)nvshmem_calloc(kPart + 2, sizeof(float));
  float* const out = (float*)nvshmem_calloc(kPart + 2, sizeof(float));
  uint64_t* const signals = (uint64_t*)nvshmem_calloc(2, sizeof(uint64_t));
  std::vector<float> all(n * kPart), next(all.size());
  for (int i = 0; i < n * kPart; ++i) all[i] = (float)(i * 7 % 32);
  CHECK(cudaMemcpy(in + 1, &all[me * kPart], kPart * sizeof(float), cudaMemcpyHostToDevice));
  nvshmem_barrier_all();
  int steps = kSteps;
  void* arguments[] = {(void*)&in, (void*)&out, (void*)&signals, &steps};
  nvshmemx_collective_launch((const void*)smooth, 1, kPart, arguments, 0, 0);
  CHECK(cudaDeviceSynchronize());
  for (int step = 0; step < kSteps; ++step, all.swap(next)) {
    const int size = n * kPart;
    for (int i = 0; i < size; ++i) {
      next[i] = 0.25f * all[(i + size - 1) % size] + 0.5f * all[i] + 0.25f * all[(i + 1) % size];
    }
  }
  std::vector<float> mine(kPart);
  CHECK(cudaMemcpy(mine.data(), in + 1, kPart * sizeof(float), cudaMemcpyDeviceToHost));
  for (int i = 0; i < kPart; ++i) EXPECT(fabsf(mine[i] - all[me * kPart + i]) < 1e-4f);
  nvshmem_barrier_all();
  nvshmem_free(signals);
  nvshmem_free(out);
  nvshmem_free(in);
  const int wrong = me == 0 ? verdict("halo_ring") : wrong_results() != 0;
  nvshmem_finalize();
  return wrong;
}
