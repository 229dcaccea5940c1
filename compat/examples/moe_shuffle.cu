// SPDX-License-Identifier: Apache-2.0
//
// Tokens go to the PEs of their experts, and results come back: counts first, then one block for
// each token that finds its place by an atomic at the PE it goes to, then put and signal.
#include "program.cuh"

#define TOKENS 96
#define WIDTH 128
#define MOST (TOKENS * 16)

__host__ __device__ static int expert_of(int pe, int token, int n) {
  return (pe * 7 + token * 5 + token / 3) % n;
}

struct Memory {
  float* tokens;      // [TOKENS][WIDTH]
  float* inbox;       // [MOST][WIDTH] of the expert
  int* where;         // [MOST] whose token that is: pe * TOKENS + token
  int* taken;         // places of the inbox that are taken
  uint64_t* arrived;  // tokens in the inbox
  float* results;     // [TOKENS][WIDTH]
  uint64_t* done;     // results that came back
};

__global__ void dispatch(Memory m) {
  __shared__ int place;
  const int me = nvshmem_my_pe();
  const int n = nvshmem_n_pes();
  for (int token = blockIdx.x; token < TOKENS; token += gridDim.x) {
    const int pe = expert_of(me, token, n);
    if (threadIdx.x == 0) {
      place = nvshmem_int_atomic_fetch_inc(m.taken, pe);
      nvshmem_int_p(m.where + place, me * TOKENS + token, pe);
      nvshmem_fence();
    }
    __syncthreads();
    nvshmemx_float_put_signal_nbi_block(m.inbox + place * WIDTH, m.tokens + token * WIDTH, WIDTH,
                                        m.arrived, 1, NVSHMEM_SIGNAL_ADD, pe);
    __syncthreads();
  }
}

// The expert doubles each value, and sends the token back.
__global__ void combine(Memory m, int expected) {
  if (threadIdx.x == 0) nvshmem_signal_wait_until(m.arrived, NVSHMEM_CMP_GE, expected);
  __syncthreads();
  for (int place = blockIdx.x; place < expected; place += gridDim.x) {
    float* values = m.inbox + place * WIDTH;
    for (int i = threadIdx.x; i < WIDTH; i += blockDim.x) values[i] *= 2;
    __syncthreads();
    const int token = m.where[place];
    nvshmemx_float_put_signal_nbi_block(m.results + token % TOKENS * WIDTH, values, WIDTH, m.done,
                                        1, NVSHMEM_SIGNAL_ADD, token / TOKENS);
  }
}

__global__ void await(uint64_t* done) {
  nvshmem_signal_wait_until(done, NVSHMEM_CMP_GE, TOKENS);
  nvshmem_quiet();
}

int main() {
  begin();
  const int me = nvshmem_my_pe();
  const int n = nvshmem_n_pes();
  Memory m;
  m.tokens = (float*)nvshmem_malloc(TOKENS * WIDTH * sizeof(float));
  m.results = (float*)nvshmem_calloc(TOKENS * WIDTH, sizeof(float));
  m.inbox = (float*)nvshmem_malloc((size_t)MOST * WIDTH * sizeof(float));
  m.where = (int*)nvshmem_calloc(MOST, sizeof(int));
  m.taken = (int*)nvshmem_calloc(1, sizeof(int));
  m.arrived = (uint64_t*)nvshmem_calloc(1, sizeof(uint64_t));
  m.done = (uint64_t*)nvshmem_calloc(1, sizeof(uint64_t));
  fill(m.tokens, TOKENS * WIDTH, [=](int i) { return (float)(me * 100000 + i); });
  int expected = 0;
  for (int pe = 0; pe < n; ++pe) {
    for (int token = 0; token < TOKENS; ++token) expected += expert_of(pe, token, n) == me;
  }
  nvshmem_barrier_all();

  dispatch<<<8, 64>>>(m);
  combine<<<8, 64>>>(m, expected);
  await<<<1, 1>>>(m.done);
  CUDA_CHECK(cudaDeviceSynchronize());

  const bool ok = holds(m.results, TOKENS * WIDTH, [=](int i) { return 2.f * (me * 100000 + i); });
  const int failed = verdict("moe_shuffle", ok);
  nvshmem_barrier_all();
  nvshmem_finalize();
  return failed;
}
