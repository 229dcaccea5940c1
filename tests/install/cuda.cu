// SPDX-License-Identifier: Apache-2.0
//
// An ordinary CUDA program, which knows nothing of peal: a histogram and a sum by shared memory,
// shuffles, atomics, cooperative groups, streams and events.
#include <cooperative_groups.h>
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>

#include <vector>

namespace cg = cooperative_groups;

#define CHECK(call)                                                                    \
  do {                                                                                 \
    cudaError_t error = (call);                                                        \
    if (error != cudaSuccess) {                                                        \
      printf("%s:%d: %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorString(error)); \
      exit(1);                                                                         \
    }                                                                                  \
  } while (0)
#define LAUNCH(kernel, stream, ...) kernel<<<kBlocks, kThreads, 0, stream>>>(__VA_ARGS__)

constexpr int kBlocks = 4;
constexpr int kThreads = 96;
constexpr int kBins = 8;
constexpr int kCount = 10000;

__constant__ int offset;
__device__ int launches;

__device__ __forceinline__ int bin_of(int value) { return (value + offset) % kBins; }

__global__ void __launch_bounds__(kThreads)
    histogram(const int* __restrict__ values, int n, int* bins) {
  __shared__ int mine[kBins];
  if (threadIdx.x < kBins) mine[threadIdx.x] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    atomicAdd(&mine[bin_of(values[i])], 1);
  }
  __syncthreads();
  if (threadIdx.x < kBins) atomicAdd(bins + threadIdx.x, mine[threadIdx.x]);
  if (blockIdx.x == 0 && threadIdx.x == 0) ++launches;
}

template <typename T, int kWidth>
__global__ void sum(const T* values, int n, T* result) {
  auto block = cg::this_thread_block();
  auto tile = cg::tiled_partition<kWidth>(block);
  T mine = 0;
  n -= 0;  // a thread's own copy
  for (int i = block.group_index().x * block.size() + block.thread_rank(); i < n;
       i += gridDim.x * blockDim.x) {
    mine += values[i];
  }
#pragma unroll
  for (int step = tile.size() / 2; step > 0; step /= 2) mine += tile.shfl_down(mine, step);
  if (tile.thread_rank() == 0) atomicAdd(result, mine);
}

__global__ void reverse(int* data, int n) {
  extern __shared__ int all[];
  for (int i = threadIdx.x; i < n; i += blockDim.x) all[i] = data[i];
  __syncthreads();
  for (int i = threadIdx.x; i < n; i += blockDim.x) data[i] = all[n - 1 - i];
}

__global__ void add(const int* a, const int* b, int* sum, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) sum[i] = a[i] + b[i];
}

// Each block waits for the one before it, as a scan does that looks back.
__global__ void chain(int* sums) {
  __shared__ int before;
  if (threadIdx.x == 0) {
    while (blockIdx.x != 0 && (before = atomicAdd(sums + blockIdx.x - 1, 0)) == 0) {
    }
    if (blockIdx.x == 0) before = 0;
  }
  __syncthreads();
  if (threadIdx.x == blockDim.x - 1) atomicExch(sums + blockIdx.x, before + 1);
}

__global__ void meet() { cg::this_grid().sync(); }

// More threads than are resident at once.
bool large_grids() {
  constexpr int kMany = 1 << 21;
  constexpr int kLinks = 4000;
  int *a, *b, *sum, *sums;
  CHECK(cudaMallocManaged(&a, kMany * sizeof(int)));
  CHECK(cudaMallocManaged(&b, kMany * sizeof(int)));
  CHECK(cudaMallocManaged(&sum, kMany * sizeof(int)));
  CHECK(cudaMallocManaged(&sums, kLinks * sizeof(int)));
  CHECK(cudaMemset(sums, 0, kLinks * sizeof(int)));
  for (int i = 0; i < kMany; ++i) a[i] = i, b[i] = 2 * i;
  add<<<kMany / 256, 256>>>(a, b, sum, kMany);
  chain<<<kLinks, 128>>>(sums);
  CHECK(cudaDeviceSynchronize());
  bool ok = sums[kLinks - 1] == kLinks;
  for (int i = 0; i < kMany; ++i) ok = ok && sum[i] == 3 * i;
  ok = ok && cudaLaunchCooperativeKernel((const void*)meet, 1 << 20, 1024, nullptr) ==
                 cudaErrorCooperativeLaunchTooLarge;
  ok = ok && cudaGetLastError() == cudaErrorCooperativeLaunchTooLarge;
  for (int* memory : {a, b, sum, sums}) CHECK(cudaFree(memory));
  return ok;
}

int main() {
  std::vector<int> values(kCount);
  for (int i = 0; i < kCount; ++i) values[i] = i;
  int *data, *bins;
  long long unsigned* total;
  unsigned long long* wide;
  CHECK(cudaMalloc(&data, kCount * sizeof(int)));
  CHECK(cudaMalloc(&bins, kBins * sizeof(int)));
  CHECK(cudaMallocHost(&total, sizeof *total));
  CHECK(cudaMalloc((void**)&wide, sizeof *wide));
  cudaStream_t stream;
  cudaEvent_t begin, end;
  CHECK(cudaStreamCreate(&stream));
  CHECK(cudaEventCreate(&begin));
  CHECK(cudaEventCreate(&end));
  const int three = 3;
  CHECK(cudaMemcpyToSymbol(offset, &three, sizeof three));
  CHECK(cudaMemcpyAsync(data, values.data(), kCount * sizeof(int), cudaMemcpyHostToDevice, stream));
  CHECK(cudaMemsetAsync(bins, 0, kBins * sizeof(int), stream));
  CHECK(cudaEventRecord(begin, stream));
  LAUNCH(histogram, stream, data, kCount, bins);
  reverse<<<1, 64, 1000 * sizeof(int), stream>>>(data, 1000);
  CHECK(cudaEventRecord(end, stream));
  CHECK(cudaStreamSynchronize(stream));
  CHECK(cudaGetLastError());

  int host[kBins], first[2], count = 0;
  CHECK(cudaMemcpy(host, bins, sizeof host, cudaMemcpyDeviceToHost));
  CHECK(cudaMemcpy(first, data, sizeof first, cudaMemcpyDeviceToHost));
  CHECK(cudaMemcpyFromSymbol(&count, launches, sizeof count));
  bool ok = first[0] == 999 && first[1] == 998 && count == 1;
  for (int bin : host) ok = ok && bin == kCount / kBins;

  // A template, by its address.
  std::vector<unsigned long long> many(kCount);
  for (int i = 0; i < kCount; ++i) many[i] = i;
  unsigned long long* from;
  CHECK(cudaMalloc(&from, kCount * sizeof *from));
  CHECK(cudaMemcpy(from, many.data(), kCount * sizeof *from, cudaMemcpyHostToDevice));
  CHECK(cudaMemset(wide, 0, sizeof *wide));
  int n = kCount;
  void* arguments[] = {&from, &n, &wide};
  CHECK(cudaLaunchKernel((const void*)sum<unsigned long long, 16>, dim3(kBlocks), dim3(kThreads),
                         arguments, 0, 0));
  sum<unsigned long long, 32><<<kBlocks, kThreads>>>(from, n, wide);
  CHECK(cudaMemcpy(total, wide, sizeof *total, cudaMemcpyDeviceToHost));
  ok = ok && *total == (unsigned long long)kCount * (kCount - 1);

  float milliseconds = -1;
  CHECK(cudaEventElapsedTime(&milliseconds, begin, end));
  ok = ok && milliseconds >= 0;
  sum<unsigned long long, 32><<<kBlocks, 2000>>>(from, n, wide);
  ok = ok && cudaGetLastError() == cudaErrorInvalidConfiguration &&
       cudaGetLastError() == cudaSuccess;
  ok = ok && large_grids();
  CHECK(cudaFree(from));
  CHECK(cudaFree(wide));
  CHECK(cudaFreeHost(total));
  CHECK(cudaFree(bins));
  CHECK(cudaFree(data));
  CHECK(cudaEventDestroy(begin));
  CHECK(cudaEventDestroy(end));
  CHECK(cudaStreamDestroy(stream));
  printf("cuda: %s\n", ok ? "ok" : "WRONG");
  return ok ? 0 : 1;
}
