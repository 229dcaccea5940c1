// SPDX-License-Identifier: Apache-2.0
//
// Templates of kernels over functors and lambdas, with packs of parameters and constexpr if.
#include <type_traits>
#include <utility>

#include "tests/cuda_programs/check.h"

template <typename F>
__global__ void for_each(int n, F function) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    function(i);
  }
}

template <typename Out, typename F, typename... In>
__global__ void transform(int n, Out* out, F function, const In*... in) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = function(in[i]...);
}

template <int kWays, typename T>
__global__ void power(T* data, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  if constexpr (kWays == 0) {
    data[i] = 1;
  } else {
    const T base = data[i];
#pragma unroll
    for (int way = 1; way < kWays; ++way) data[i] *= base;
  }
}

struct Axpy {
  float a;
  template <typename X, typename Y>
  __host__ __device__ auto operator()(X x, Y y) const {
    return a * x + y;
  }
};

template <typename F>
void launch(int n, F&& function) {
  for_each<<<(n + 63) / 64, 64>>>(n, std::forward<F>(function));
}

int main() {
  constexpr int kCount = 300;
  float *x, *out;
  int* y;
  CHECK(cudaMallocManaged(&x, kCount * sizeof(float)));
  CHECK(cudaMallocManaged(&out, kCount * sizeof(float)));
  CHECK(cudaMallocManaged(&y, kCount * sizeof(int)));
  const float scale = 0.5f;
  launch(kCount, [=] __host__ __device__(int i) {
    x[i] = i * scale;
    y[i] = -i;
  });
  transform<<<5, 64>>>(kCount, out, Axpy{4}, x, y);
  CHECK(cudaDeviceSynchronize());
  for (int i = 0; i < kCount; ++i) EXPECT(out[i] == i);
  transform<<<5, 64>>>(
      kCount, y, [] __host__ __device__(float a) { return (int)a * 2; }, x);
  power<3><<<5, 64>>>(x, kCount);
  power<0><<<5, 64>>>(out, kCount);
  CHECK(cudaDeviceSynchronize());
  for (int i = 0; i < kCount; ++i) {
    const float half = i * 0.5f;
    EXPECT(y[i] == i / 2 * 2 && x[i] == half * half * half && out[i] == 1);
  }
  return verdict("lambdas");
}
