// SPDX-License-Identifier: Apache-2.0
//
// The kernels of a program whose main() is C++ that no compiler of CUDA sees: mixed_main.cpp.
#include <cuda_runtime.h>

#include "tests/cuda_programs/bench/mixed.h"

namespace {

__global__ void multiply(const float* a, const float* b, float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = a[i] * b[i];
}

}  // namespace

struct Product::Buffers {
  float *a, *b, *out;
};

Product::Product(int n) : n_(n), buffers_(new Buffers) {
  cudaMalloc(&buffers_->a, n * sizeof(float));
  cudaMalloc(&buffers_->b, n * sizeof(float));
  cudaMalloc(&buffers_->out, n * sizeof(float));
}

Product::~Product() {
  cudaFree(buffers_->a);
  cudaFree(buffers_->b);
  cudaFree(buffers_->out);
  delete buffers_;
}

bool Product::compute(const float* a, const float* b, float* out) {
  const size_t bytes = n_ * sizeof(float);
  cudaMemcpy(buffers_->a, a, bytes, cudaMemcpyHostToDevice);
  cudaMemcpy(buffers_->b, b, bytes, cudaMemcpyHostToDevice);
  multiply<<<(n_ + 63) / 64, 64>>>(buffers_->a, buffers_->b, buffers_->out, n_);
  return cudaMemcpy(out, buffers_->out, bytes, cudaMemcpyDeviceToHost) == cudaSuccess;
}
