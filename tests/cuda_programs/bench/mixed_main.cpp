// SPDX-License-Identifier: Apache-2.0
//
// A program in two languages: this file is C++ alone, calls CUDA's runtime and NVSHMEM's host calls
// and leaves the kernels to mixed.cu.
#include <cuda_runtime_api.h>
#include <nvshmem.h>
#include <nvshmemx.h>

#include <cstdio>
#include <vector>

#include "tests/cuda_programs/bench/mixed.h"

#ifdef __CUDACC__
#error this file is no CUDA
#endif

int main() {
  nvshmem_init();
  int devices = 0;
  bool ok = cudaGetDeviceCount(&devices) == cudaSuccess && devices > 0;
  constexpr int kCount = 200;
  std::vector<float> a(kCount), b(kCount), out(kCount);
  for (int i = 0; i < kCount; ++i) a[i] = i, b[i] = 0.5f * i;
  Product product(kCount);
  ok = product.compute(a.data(), b.data(), out.data()) && ok;
  for (int i = 0; i < kCount; ++i) ok = ok && out[i] == 0.5f * i * i;
  ok = ok && nvshmem_n_pes() == 1;
  std::printf("mixed: %s\n", ok ? "ok" : "WRONG");
  nvshmem_finalize();
  return !ok;
}
