// SPDX-License-Identifier: Apache-2.0
//
// A histogram whose bins are dealt to the PEs: every thread adds to bins of any PE by atomics.
#include "program.cuh"

#define BINS 32  // of each PE
#define THREADS 128
#define BLOCKS 4
#define VALUES 16  // of each thread

__host__ __device__ static unsigned value_of(unsigned pe, unsigned thread, unsigned i) {
  unsigned x = pe * 2654435761u + thread * 40503u + i * 2246822519u + 1;
  x ^= x >> 15;
  x *= 2246822519u;
  return x ^ (x >> 13);
}

__global__ void count(unsigned* bins) {
  const unsigned all = BINS * nvshmem_n_pes();
  const unsigned thread = blockIdx.x * blockDim.x + threadIdx.x;
  for (unsigned i = 0; i < VALUES; ++i) {
    const unsigned bin = value_of(nvshmem_my_pe(), thread, i) % all;
    nvshmem_uint_atomic_add(bins + bin % BINS, 1, bin / BINS);
  }
  nvshmem_quiet();
}

int main() {
  begin();
  const unsigned me = nvshmem_my_pe();
  const unsigned n = nvshmem_n_pes();
  unsigned* bins = (unsigned*)nvshmem_calloc(BINS, sizeof(unsigned));

  count<<<BLOCKS, THREADS>>>(bins);
  CUDA_CHECK(cudaDeviceSynchronize());
  nvshmem_barrier_all();

  unsigned wanted[BINS] = {};
  for (unsigned pe = 0; pe < n; ++pe) {
    for (unsigned thread = 0; thread < BLOCKS * THREADS; ++thread) {
      for (unsigned i = 0; i < VALUES; ++i) {
        const unsigned bin = value_of(pe, thread, i) % (BINS * n);
        if (bin / BINS == me) ++wanted[bin % BINS];
      }
    }
  }
  const int failed = verdict("histogram", holds(bins, BINS, [&](int i) { return wanted[i]; }));
  nvshmem_free(bins);
  nvshmem_finalize();
  return failed;
}
