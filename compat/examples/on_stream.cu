// SPDX-License-Identifier: Apache-2.0
//
// Work of the host in a stream's order: a kernel makes data, calls on the stream send it and meet,
// a kernel uses what came, and a reduction on the stream ends it.
#include "program.cuh"

#define COUNT 1000

__global__ void make(double* data, int pe) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < COUNT) data[i] = pe + 0.5 * i;
}

__global__ void twice(double* data) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < COUNT) data[i] *= 2;
}

int main() {
  begin();
  const int me = nvshmem_my_pe();
  const int n = nvshmem_n_pes();
  cudaStream_t stream;
  CUDA_CHECK(cudaStreamCreate(&stream));
  double* mine = (double*)nvshmem_malloc(COUNT * sizeof(double));
  double* box = (double*)nvshmem_malloc(COUNT * sizeof(double));
  double* sum = (double*)nvshmem_malloc(COUNT * sizeof(double));
  uint64_t* flag = (uint64_t*)nvshmem_calloc(1, sizeof(uint64_t));

  make<<<(COUNT + 127) / 128, 128, 0, stream>>>(mine, me);
  nvshmemx_double_put_signal_on_stream(box, mine, COUNT, flag, 1, NVSHMEM_SIGNAL_SET, (me + 1) % n,
                                       stream);
  nvshmemx_signal_wait_until_on_stream(flag, NVSHMEM_CMP_EQ, 1, stream);
  twice<<<(COUNT + 127) / 128, 128, 0, stream>>>(box);
  nvshmemx_double_sum_reduce_on_stream(NVSHMEM_TEAM_WORLD, sum, box, COUNT, stream);
  nvshmemx_barrier_all_on_stream(stream);
  double host[COUNT];
  CUDA_CHECK(cudaMemcpyAsync(host, sum, sizeof(host), cudaMemcpyDeviceToHost, stream));
  CUDA_CHECK(cudaStreamSynchronize(stream));

  bool ok = true;
  for (int i = 0; i < COUNT; ++i) ok = ok && host[i] == n * (n - 1) + n * 1.0 * i;
  const int failed = verdict("on_stream", ok);
  nvshmem_free(flag);
  nvshmem_free(sum);
  nvshmem_free(box);
  nvshmem_free(mine);
  CUDA_CHECK(cudaStreamDestroy(stream));
  nvshmem_finalize();
  return failed;
}
