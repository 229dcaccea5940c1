// SPDX-License-Identifier: Apache-2.0
//
// assert() without <assert.h>: a kernel's ends the launch with cudaErrorAssert, and says where it
// was. The first line of stderr is for the test.
#include "tests/cuda_programs/check.h"

__global__ void positive(const int* data) {
  assert(data[blockIdx.x * blockDim.x + threadIdx.x] > 0);
}

int main() {
  int* data;
  CHECK(cudaMallocManaged(&data, 64 * sizeof(int)));
  for (int i = 0; i < 64; ++i) data[i] = i + 1;
  assert(data[0] == 1);
  positive<<<2, 32>>>(data);
  CHECK(cudaDeviceSynchronize());
  data[37] = -1;
  positive<<<2, 32>>>(data);
  EXPECT(cudaDeviceSynchronize() == cudaErrorAssert);
  EXPECT(cudaGetLastError() == cudaErrorAssert);
  int* more;
  EXPECT(cudaMalloc(&more, 4) == cudaErrorAssert);  // nothing works any more, as in CUDA
  printf("asserts: %s\n", wrong_results() == 0 ? "ok" : "WRONG");
  return wrong_results() != 0;
}
