// SPDX-License-Identifier: Apache-2.0
//
// A sum over all PEs in two laps of the ring, in chunks: the first lap adds, the second hands the
// result round. Each block has chunks of its own, and a flag for each of them.
#include "program.cuh"

#define BLOCKS 4
#define THREADS 64
#define CHUNK 256
#define CHUNKS 16

__global__ void ring_reduce(int* sum, const int* mine, uint64_t* flags) {
  const int me = nvshmem_my_pe();
  const int n = nvshmem_n_pes();
  const int next = (me + 1) % n;
  for (int chunk = blockIdx.x; chunk < CHUNKS; chunk += gridDim.x) {
    int* at = sum + chunk * CHUNK;
    uint64_t* flag = flags + chunk;
    // Lap 1: what came from the PE before, and this PE's own.
    if (me > 0) {
      if (threadIdx.x == 0) nvshmem_signal_wait_until(flag, NVSHMEM_CMP_GE, 1);
      __syncthreads();
    }
    for (int i = threadIdx.x; i < CHUNK; i += blockDim.x) {
      at[i] = mine[chunk * CHUNK + i] + (me > 0 ? at[i] : 0);
    }
    __syncthreads();
    if (n == 1) continue;
    nvshmemx_int_put_signal_nbi_block(at, at, CHUNK, flag, 1, NVSHMEM_SIGNAL_ADD, next);
    // Lap 2: PE n - 1 has the result, which went to PE 0 already.
    if (me == n - 1) continue;
    if (threadIdx.x == 0) nvshmem_signal_wait_until(flag, NVSHMEM_CMP_GE, me == 0 ? 1 : 2);
    __syncthreads();
    if (me < n - 2) {
      nvshmemx_int_put_signal_nbi_block(at, at, CHUNK, flag, 1, NVSHMEM_SIGNAL_ADD, next);
    }
  }
}

int main() {
  begin();
  const int n = nvshmem_n_pes();
  const size_t bytes = CHUNKS * CHUNK * sizeof(int);
  int* sum = (int*)nvshmem_malloc(bytes);
  int* mine = (int*)nvshmem_malloc(bytes);
  uint64_t* flags = (uint64_t*)nvshmem_calloc(CHUNKS, sizeof(uint64_t));
  fill(mine, CHUNKS * CHUNK, [](int i) { return i + nvshmem_my_pe(); });
  nvshmem_barrier_all();

  ring_reduce<<<BLOCKS, THREADS>>>(sum, mine, flags);
  CUDA_CHECK(cudaDeviceSynchronize());
  nvshmem_barrier_all();

  const bool ok = holds(sum, CHUNKS * CHUNK, [=](int i) { return n * i + n * (n - 1) / 2; });
  const int failed = verdict("ring_reduce", ok);
  nvshmem_free(flags);
  nvshmem_free(mine);
  nvshmem_free(sum);
  nvshmem_finalize();
  return failed;
}
