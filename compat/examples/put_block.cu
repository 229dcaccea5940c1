// SPDX-License-Identifier: Apache-2.0
//
// Every block sends its slice of an array to the PE on the right, all its threads together.
#include "program.cuh"

#define BLOCKS 8
#define THREADS 128
#define SLICE 1024

__global__ void fill_and_send(float* to, float* from, int right) {
  const int begin = blockIdx.x * SLICE;
  for (int i = threadIdx.x; i < SLICE; i += blockDim.x) {
    from[begin + i] = (float)(nvshmem_my_pe() * 10000 + begin + i);
  }
  __syncthreads();
  nvshmemx_float_put_block(to + begin, from + begin, SLICE, right);
}

int main() {
  begin();
  const int me = nvshmem_my_pe();
  const int n = nvshmem_n_pes();
  const int count = BLOCKS * SLICE;
  float* to = (float*)nvshmem_malloc(count * sizeof(float));
  float* from = (float*)nvshmem_malloc(count * sizeof(float));

  fill_and_send<<<BLOCKS, THREADS>>>(to, from, (me + 1) % n);
  CUDA_CHECK(cudaDeviceSynchronize());
  nvshmem_barrier_all();

  const int left = (me + n - 1) % n;
  const bool ok = holds(to, count, [=](int i) { return (float)(left * 10000 + i); });
  const int failed = verdict("put_block", ok);
  nvshmem_free(from);
  nvshmem_free(to);
  nvshmem_finalize();
  return failed;
}
