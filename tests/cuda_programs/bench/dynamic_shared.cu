// SPDX-License-Identifier: Apache-2.0
//
// Several arrays of different types in one piece of dynamic shared memory, more of it than a kernel
// has without asking, and a launch that is refused.
#include "tests/cuda_programs/check.h"

__global__ void shuffle_around(const float* in, float* out, int n) {
  extern __shared__ unsigned char memory[];
  double* const wide = reinterpret_cast<double*>(memory);
  float* const narrow = reinterpret_cast<float*>(wide + n);
  short* const order = reinterpret_cast<short*>(narrow + n);
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    wide[i] = in[i] * 2.0;
    narrow[i] = in[i] + 1;
    order[i] = (short)(n - 1 - i);
  }
  __syncthreads();
  for (int i = threadIdx.x; i < n; i += blockDim.x) out[i] = (float)wide[order[i]] + narrow[i];
}

int main() {
  constexpr int kCount = 5000;
  const size_t bytes = kCount * (sizeof(double) + sizeof(float) + sizeof(short));
  float *in, *out;
  CHECK(cudaMallocManaged(&in, kCount * sizeof(float)));
  CHECK(cudaMallocManaged(&out, kCount * sizeof(float)));
  for (int i = 0; i < kCount; ++i) in[i] = (float)i;
  cudaDeviceProp properties;
  CHECK(cudaGetDeviceProperties(&properties, 0));
  EXPECT(bytes > properties.sharedMemPerBlock && bytes <= properties.sharedMemPerBlockOptin);
  CHECK(cudaFuncSetAttribute(shuffle_around, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             (int)bytes));
  shuffle_around<<<1, 128, bytes>>>(in, out, kCount);
  CHECK(cudaDeviceSynchronize());
  for (int i = 0; i < kCount; ++i) EXPECT(out[i] == 2.0f * (kCount - 1 - i) + i + 1);
  shuffle_around<<<1, 128, 10 * properties.sharedMemPerMultiprocessor>>>(in, out, kCount);
  EXPECT(cudaGetLastError() != cudaSuccess);
  return verdict("dynamic_shared");
}
