// SPDX-License-Identifier: Apache-2.0
//
// The parts of CUB that peal has: reductions and scans of blocks and warps, algorithms of a device.
#include <cub/block/block_reduce.cuh>
#include <cub/block/block_scan.cuh>
#include <cub/cub.cuh>
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_reduce.cuh>
#include <cub/device/device_scan.cuh>
#include <cub/device/device_select.cuh>
#include <cub/warp/warp_reduce.cuh>
#include <cub/warp/warp_scan.cuh>

#include "tests/cuda_programs/check.h"

constexpr int kThreads = 64;

__global__ void in_block(const int* data, int* sums, int* before, int* most) {
  using Reduce = cub::BlockReduce<int, kThreads>;
  using Scan = cub::BlockScan<int, kThreads>;
  __shared__ union {
    typename Reduce::TempStorage reduce;
    typename Scan::TempStorage scan;
  } storage;
  const int i = blockIdx.x * kThreads + threadIdx.x, own = data[i];
  const int sum = Reduce(storage.reduce).Sum(own);
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
  __syncthreads();
  const int largest =
      Reduce(storage.reduce).Reduce(own, [](int a, int b) { return a < b ? b : a; });
  if (threadIdx.x == 0) most[blockIdx.x] = largest;
  __syncthreads();
  int result, all, inclusive;
  Scan(storage.scan).ExclusiveSum(own, result, all);
  __syncthreads();
  Scan(storage.scan).InclusiveSum(own, inclusive);
  before[i] = inclusive - own == result && all == sums[blockIdx.x] ? result : -1;
}

__global__ void in_warp(const int* data, int* sums, int* upto) {
  using Reduce = cub::WarpReduce<int, 16>;
  using Scan = cub::WarpScan<int>;
  __shared__ typename Reduce::TempStorage reduce[kThreads / 16];
  __shared__ typename Scan::TempStorage scan[kThreads / 32];
  const int i = threadIdx.x;
  const int sum = Reduce(reduce[i / 16]).Sum(data[i]);
  if (i % 16 == 0) sums[i / 16] = sum;
  Scan(scan[i / 32]).InclusiveSum(data[i], upto[i]);
}

template <class Call>
void run(Call call) {
  size_t bytes = 0;
  void* storage = nullptr;
  CHECK(call(storage, bytes));
  CHECK(cudaMalloc(&storage, bytes));
  CHECK(call(storage, bytes));
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaFree(storage));
}

int main() {
  constexpr int kCount = 4 * kThreads;
  int *data, *out, *sums, *most, *values, *sorted;
  for (int** one : {&data, &out, &sums, &most, &values, &sorted}) {
    CHECK(cudaMallocManaged(one, kCount * sizeof(int)));
  }
  for (int i = 0; i < kCount; ++i) data[i] = i * 37 % 101, values[i] = i;
  in_block<<<4, kThreads>>>(data, sums, out, most);
  CHECK(cudaDeviceSynchronize());
  int total = 0;
  for (int b = 0; b < 4; ++b) {
    int sum = 0, largest = 0;
    for (int i = b * kThreads; i < (b + 1) * kThreads; ++i) {
      EXPECT(out[i] == sum);
      sum += data[i];
      largest = max(largest, data[i]);
    }
    EXPECT(sums[b] == sum && most[b] == largest);
    total += sum;
  }
  in_warp<<<1, kThreads>>>(data, sums, out);
  CHECK(cudaDeviceSynchronize());
  for (int i = 0, warp = 0, part = 0; i < kThreads; ++i) {
    warp = i % 32 == 0 ? data[i] : warp + data[i];
    part = i % 16 == 0 ? data[i] : part + data[i];
    EXPECT(out[i] == warp && (i % 16 != 15 || sums[i / 16] == part));
  }
  run([&](void* s, size_t& n) { return cub::DeviceReduce::Sum(s, n, data, sums, kCount); });
  run([&](void* s, size_t& n) { return cub::DeviceReduce::Max(s, n, data, most, kCount); });
  EXPECT(sums[0] == total && most[0] == 100);
  run([&](void* s, size_t& n) { return cub::DeviceScan::ExclusiveSum(s, n, data, out, kCount); });
  EXPECT(out[0] == 0 && out[kCount - 1] == total - data[kCount - 1]);
  run([&](void* s, size_t& n) {
    return cub::DeviceSelect::If(s, n, data, out, sums, kCount, [](int x) { return x < 10; });
  });
  EXPECT(sums[0] == 26 && out[0] == 0);
  run([&](void* s, size_t& n) {
    return cub::DeviceRadixSort::SortPairs(s, n, data, out, values, sorted, kCount);
  });
  for (int i = 0; i < kCount; ++i)
    EXPECT(out[i] == data[sorted[i]] && (i == 0 || out[i - 1] <= out[i]));
  return verdict("cub_parts");
}
