// SPDX-License-Identifier: Apache-2.0
//
// A program of a user of NVSHMEM, without kernels: every PE puts a number at the next one.
#include <nvshmem.h>
#include <nvshmemx.h>
#include <nvshmemx_error.h>

#include <cstdio>

int main() {
  nvshmem_init();
  const int me = nvshmem_my_pe();
  const int n = nvshmem_n_pes();
  int* const box = static_cast<int*>(nvshmem_calloc(1, sizeof(int)));
  nvshmem_int_p(box, me + 1, (me + 1) % n);
  nvshmem_barrier_all();
  const int seen = nvshmem_int_g(box, me);
  const bool good = seen == (me + n - 1) % n + 1;
  std::printf("nvshmem: PE %d of %d has %d\n", me, n, seen);
  nvshmem_free(box);
  nvshmem_finalize();
  return good ? 0 : 1;
}
