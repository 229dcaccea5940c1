// SPDX-License-Identifier: Apache-2.0
//
// CUDA's C++ libraries, where a user has them: libcu++'s types, atomics and barriers in kernels,
// whose lanes wait for each other by them, and Thrust's algorithms behind kernels.
#include <thrust/device_vector.h>
#include <thrust/execution_policy.h>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/reduce.h>
#include <thrust/scan.h>
#include <thrust/sort.h>
#include <thrust/system/cuda/execution_policy.h>
#include <thrust/transform.h>

#include <cuda/atomic>
#include <cuda/barrier>
#include <cuda/std/array>
#include <cuda/std/tuple>

#include "tests/cuda_programs/check.h"

using Flag = cuda::atomic<int, cuda::thread_scope_device>;

__global__ void meet(int* sum, Flag* flag) {
  __shared__ cuda::barrier<cuda::thread_scope_block> barrier;
  __shared__ int five;
  if (threadIdx.x == 0) init(&barrier, blockDim.x);
  __syncthreads();
  if (threadIdx.x == 3) five = 5;
  barrier.arrive_and_wait();
  if (threadIdx.x == 0) {
    while (flag->load(cuda::memory_order_acquire) == 0) {
    }
  }
  if (threadIdx.x == 40) flag->store(1, cuda::std::memory_order_release);
  const cuda::std::array<int, 2> parts = {five, -2};
  const auto both = cuda::std::make_tuple(parts[0], parts[1]);
  cuda::atomic_ref<int, cuda::thread_scope_device> total(*sum);
  total.fetch_add(cuda::std::get<0>(both) + cuda::std::get<1>(both));
}

__global__ void fill_slowly(int* data, int n) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    const long long begin = clock64();
    while (clock64() - begin < 500) {
    }
    data[i] = i * 37 % 100;
  }
}

int main() {
  int* sum;
  Flag* flag;
  CHECK(cudaMallocManaged(&sum, sizeof(int)));
  CHECK(cudaMallocManaged(&flag, sizeof(Flag)));
  *sum = 0;
  new (flag) Flag(0);
  meet<<<1, 64>>>(sum, flag);
  CHECK(cudaDeviceSynchronize());
  EXPECT(*sum == 64 * 3);

  constexpr int kCount = 1000;
  thrust::device_vector<int> data(kCount), sums(kCount);
  fill_slowly<<<1, 32>>>(thrust::raw_pointer_cast(data.data()), kCount);
  EXPECT(thrust::reduce(data.begin(), data.end()) == 49500);
  fill_slowly<<<1, 32>>>(thrust::raw_pointer_cast(data.data()), kCount);
  thrust::sort(thrust::device, data.begin(), data.end());
  EXPECT(data[42] == 4 && data[420] == 42);
  cudaStream_t stream;
  CHECK(cudaStreamCreate(&stream));
  thrust::exclusive_scan(thrust::cuda::par.on(stream), data.begin(), data.end(), sums.begin());
  EXPECT(sums[kCount - 1] == 49500 - 99);
  thrust::transform(thrust::counting_iterator<int>(0), thrust::counting_iterator<int>(10),
                    sums.begin(), [] __host__ __device__(int x) { return x * x; });
  EXPECT(sums[9] == 81);
  return verdict("libraries");
}
