// SPDX-License-Identifier: Apache-2.0
//
// What lies in smaller headers: complex numbers, special functions, copies to shared memory, scans
// of groups, the profiler; and the guards that helpers ask for.
#include <builtin_types.h>
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cooperative_groups/scan.h>
#include <cuComplex.h>
#include <cuda_pipeline.h>
#include <cuda_profiler_api.h>
#include <math.h>

#include "tests/cuda_programs/check.h"

#if !defined(__DRIVER_TYPES_H__) || !defined(__CUDA_RUNTIME_H__)
#error CUDA's samples declare their helpers behind these
#endif

namespace cg = cooperative_groups;

// As many programs do; C++20 has one, too.
__device__ inline float lerp(float a, float b, float t) { return a + t * (b - a); }

__global__ void special(double* r) {
  r[0] = normcdf(1.96);
  r[1] = normcdfinv(0.975);
  r[2] = erfinv(0.5);
  r[3] = erfcinv(1e-20);
  r[4] = erfcx(30.0);
  r[5] = norm3d(2.0, 3.0, 6.0);
  r[6] = rhypot(3.0, 4.0);
  sincospi(0.25, &r[7], &r[8]);
  const cuDoubleComplex q = cuCdiv(make_cuDoubleComplex(1, 2), make_cuDoubleComplex(3, -4));
  r[9] = cuCreal(q);
  r[10] = cuCimag(cuCmul(q, make_cuDoubleComplex(3, -4)));
  r[11] = cuCabsf(make_cuComplex(-3, 4)) * lerp(0, 2, 0.5f);
}

__global__ void copy(const int* from, int* to) {
  __shared__ int whole[64], single[64];
  const cg::thread_block block = cg::this_thread_block();
  cg::memcpy_async(block, whole, from, sizeof whole);
  __pipeline_memcpy_async(&single[threadIdx.x], &from[threadIdx.x], sizeof(int));
  __pipeline_commit();
  __pipeline_wait_prior(0);
  cg::wait(block);
  const auto tile = cg::tiled_partition<32>(block);
  const int upto = cg::inclusive_scan(tile, whole[threadIdx.x]);
  const int before = cg::exclusive_scan(tile, single[63 - threadIdx.x], cg::plus<int>());
  to[threadIdx.x] = upto * 1000 + before;
}

int main() {
  CHECK(cudaProfilerStart());
  CHECK(cudaFuncSetCacheConfig(special, cudaFuncCachePreferL1));
  double* r;
  int *from, *to;
  CHECK(cudaMallocManaged(&r, 12 * sizeof(double)));
  CHECK(cudaMallocManaged(&from, 64 * sizeof(int)));
  CHECK(cudaMallocManaged(&to, 64 * sizeof(int)));
  for (int i = 0; i < 64; ++i) from[i] = i % 5;
  special<<<1, 1>>>(r);
  copy<<<1, 64>>>(from, to);
  CHECK(cudaDeviceSynchronize());
  const double expected[] = {0.97500210485177952,
                             1.9599639845400542,
                             0.47693627620446987,
                             6.6015806223551426,
                             0.018795888861416751,
                             7,
                             0.2,
                             0.70710678118654752,
                             0.70710678118654752,
                             -0.2,
                             2,
                             5};
  for (int i = 0; i < 12; ++i) {
    if (fabs(r[i] - expected[i]) > 1e-14 * fabs(expected[i])) printf("%d: %.17g\n", i, r[i]);
    EXPECT(fabs(r[i] - expected[i]) <= 1e-14 * fabs(expected[i]));
  }
  int upto = 0, before = 0;
  for (int i = 0; i < 64; ++i) {
    if (i % 32 == 0) upto = before = 0;
    upto += i % 5;
    EXPECT(to[i] == upto * 1000 + before);
    before += (63 - i) % 5;
  }
  CHECK(cudaProfilerStop());
  return verdict("small_headers");
}
