// SPDX-License-Identifier: Apache-2.0
//
// Each PE tells the next one who it is.
#include "program.cuh"

__global__ void hello(int* from) {
  const int me = nvshmem_my_pe();
  const int next = (me + 1) % nvshmem_n_pes();
  nvshmem_int_p(from, me, next);
}

int main() {
  begin();
  cudaStream_t stream;
  CUDA_CHECK(cudaStreamCreate(&stream));
  int* from = (int*)nvshmem_malloc(sizeof(int));

  hello<<<1, 1, 0, stream>>>(from);
  nvshmemx_barrier_all_on_stream(stream);
  int told = -1;
  CUDA_CHECK(cudaMemcpyAsync(&told, from, sizeof(int), cudaMemcpyDeviceToHost, stream));
  CUDA_CHECK(cudaStreamSynchronize(stream));

  const int n = nvshmem_n_pes();
  const int failed = verdict("hello", told == (nvshmem_my_pe() + n - 1) % n);
  nvshmem_free(from);
  CUDA_CHECK(cudaStreamDestroy(stream));
  nvshmem_finalize();
  return failed;
}
