// SPDX-License-Identifier: Apache-2.0
//
// races NAME: planted data races of a CUDA program, each with what would order it left out; with
// -DRIGHT it is there. The line that races ends with the name.
#include <cstring>

__global__ void lanes(int* word, int*) {
#ifdef RIGHT
  atomicAdd(word, 1);
#else
  *word += 1;                                        // lanes
#endif
}

__global__ void shared(int*, int* out) {
  __shared__ int word;
  if (threadIdx.x == 0) word = 42;
#ifdef RIGHT
  __syncthreads();
#endif
  out[threadIdx.x] = word;  // shared
}

// A tree over a warp, as one could write it before Volta.
__global__ void warp(int*, int* out) {
  __shared__ int parts[32];
  const int me = threadIdx.x;
  parts[me] = me;
  for (int width = 16; width > 0; width /= 2) {
#ifdef RIGHT
    __syncwarp();
    if (me < width) parts[me] += parts[me + width];
#else
    if (me < width) parts[me] += parts[me + width];  // warp
#endif
  }
  if (me == 0) *out = parts[0];
}

__global__ void blocks(int* word, int*) {
#ifdef RIGHT
  atomicExch(word, blockIdx.x);
#else
  *word = blockIdx.x;                                // blocks
#endif
}

__global__ void publish(int* flag, int* data) {
  if (blockIdx.x == 0) {
    data[0] = 17;
#ifdef RIGHT
    __threadfence();
#endif
    atomicExch(flag, 1);
  } else {
    while (atomicAdd(flag, 0) == 0) __nanosleep(20);
#ifdef RIGHT
    __threadfence();
#endif
    data[1] = data[0];  // publish
  }
}

// A loop over a volatile word is none itself.
__global__ void flag(int* word, int* data) {
  if (blockIdx.x == 0) {
    data[0] = 17;
#ifdef RIGHT
    __threadfence();
#endif
    *(volatile int*)word = 1;
  } else {
    while (*(volatile int*)word == 0) __nanosleep(20);
#ifdef RIGHT
    __threadfence();
#endif
    data[1] = data[0];  // flag
  }
}

__global__ void host(int*, int* out) {
  *out = 5;  // host
}

int main(int, char** argv) {
  struct {
    const char* name;
    void (*kernel)(int*, int*);
    int blocks, threads;
  } const all[] = {{"lanes", lanes, 1, 2},   {"shared", shared, 1, 2},   {"warp", warp, 1, 32},
                   {"blocks", blocks, 2, 1}, {"publish", publish, 2, 1}, {"flag", flag, 2, 1},
                   {"host", host, 1, 1}};
  int *word, *out;
  cudaMalloc(&word, sizeof(int));
  cudaMallocHost(&out, 64 * sizeof(int));
  cudaMemset(word, 0, sizeof(int));
  for (const auto& one : all) {
    if (strcmp(one.name, argv[1]) != 0) continue;
    one.kernel<<<one.blocks, one.threads>>>(word, out);
#ifdef RIGHT
    cudaDeviceSynchronize();
#endif
    while (one.kernel == host && *(volatile int*)out != 5) {
    }
  }
  return cudaDeviceSynchronize();
}
