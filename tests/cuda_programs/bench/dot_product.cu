// SPDX-License-Identifier: Apache-2.0
//
// Several PEs, by peal's calls: each sums up its part of a dot product in a block, all_reduce makes
// one sum of them in the same kernel.
#include <peal/peal.h>

#include "tests/cuda_programs/check.h"

constexpr int kCount = 1000, kThreads = 128;

__global__ void dot(peal::Context ctx, peal::Team all, double* part, double* sum,
                    peal::Status* status) {
  __shared__ double of_warps[kThreads / 32];
  double mine = 0;
  for (int i = threadIdx.x; i < kCount; i += kThreads) {
    const double x = ctx.pe * kCount + i;
    mine += x * (1.0 / (1 + i));
  }
  for (int step = 16; step > 0; step /= 2) mine += __shfl_down_sync(0xffffffff, mine, step);
  if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = mine;
  __syncthreads();
  if (threadIdx.x == 0) {
    *part = 0;
    for (double of_warp : of_warps) *part += of_warp;
  }
  __syncthreads();
  const auto end = peal::all_reduce(ctx, peal::block, all, sum, part, 1, peal::op::sum);
  if (threadIdx.x == 0) *status = end;
}

int main() {
  return peal::run_main([] {
    peal::Runtime pe = peal::start();
    double* const part = pe.allocate<double>(1);
    double* const sum = pe.allocate<double>(1);
    auto* const status = pe.allocate<peal::Status>(1);
    pe.barrier();
    dot<<<1, kThreads>>>(pe.context(), pe.world(), part, sum, status);
    CHECK(cudaDeviceSynchronize());
    double expected = 0, result = 0;
    peal::Status end{};
    for (int p = 0; p < pe.n_pes(); ++p) {
      for (int i = 0; i < kCount; ++i) expected += (p * kCount + i) * (1.0 / (1 + i));
    }
    pe.copy_out(&end, status, sizeof end);
    pe.copy_out(&result, sum, sizeof result);
    EXPECT(end == peal::Status::kOk);
    EXPECT(result > expected - 1e-6 && result < expected + 1e-6);
    pe.barrier();
    if (pe.my_pe() == 0) verdict("dot_product");
    return wrong_results();
  });
}
