// SPDX-License-Identifier: Apache-2.0
//
// The largest of all PEs' values and who has it, by NVSHMEM's call.
#include <nvshmem.h>
#include <nvshmemx.h>

#include "tests/cuda_programs/check.h"

__global__ void find_largest(double2* to, const double2* from, int count, int* result) {
  const int code = nvshmemx_double2_maxloc_reduce_block(NVSHMEM_TEAM_WORLD, to, from, count);
  if (threadIdx.x == 0) *result = code;
}

int main() {
  nvshmem_init();
  const int me = nvshmem_my_pe(), n = nvshmem_n_pes();
  constexpr int kCount = 3;
  double2* const from = (double2*)nvshmem_malloc(kCount * sizeof(double2));
  double2* const to = (double2*)nvshmem_malloc(kCount * sizeof(double2));
  int* result;
  CHECK(cudaMallocManaged(&result, sizeof(int)));
  from[0] = make_double2(me * 1.5, me);        // the last one's
  from[1] = make_double2(-me - 1.0, 10 + me);  // the first one's
  from[2] = make_double2(7, me + 1);           // all have it
  nvshmem_barrier_all();
  int count = kCount;
  void* arguments[] = {(void*)&to, (void*)&from, &count, &result};
  nvshmemx_collective_launch((const void*)find_largest, 1, 32, arguments, 0, 0);
  CHECK(cudaDeviceSynchronize());
  EXPECT(*result == 0);
  EXPECT(to[0].x == (n - 1) * 1.5 && to[0].y == n - 1);
  EXPECT(to[1].x == -1 && to[1].y == 10);
  EXPECT(to[2].x == 7 && to[2].y == 1);
  nvshmem_barrier_all();
  const int wrong = me == 0 ? verdict("maxloc") : wrong_results() != 0;
  nvshmem_finalize();
  return wrong;
}
