// SPDX-License-Identifier: Apache-2.0
//
// A job that a unique id begins: rank 0 makes it, and any means of the program's tells the others;
// here MPI, which NVSHMEM knows nothing of.
#include <mpi.h>

#include "program.cuh"

__global__ void count(int* counter) { nvshmem_int_atomic_inc(counter, 0); }

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  int size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);

  nvshmemx_uniqueid_t id = NVSHMEMX_UNIQUEID_INITIALIZER;
  nvshmemx_init_attr_t attr = NVSHMEMX_INIT_ATTR_INITIALIZER;
  if (rank == 0) nvshmemx_get_uniqueid(&id);
  MPI_Bcast(&id, sizeof(nvshmemx_uniqueid_t), MPI_UINT8_T, 0, MPI_COMM_WORLD);
  nvshmemx_set_attr_uniqueid_args(rank, size, &id, &attr);
  if (nvshmemx_init_attr(NVSHMEMX_INIT_WITH_UNIQUEID, &attr) != 0) return 1;
  take_gpu();

  int* counter = (int*)nvshmem_calloc(1, sizeof(int));
  count<<<4, 32>>>(counter);
  CUDA_CHECK(cudaDeviceSynchronize());
  nvshmem_barrier_all();

  int counted = 0;
  CUDA_CHECK(cudaMemcpy(&counted, counter, sizeof(int), cudaMemcpyDeviceToHost));
  const bool ok = nvshmem_my_pe() == rank && nvshmem_n_pes() == size &&
                  nvshmemx_init_status() >= NVSHMEM_STATUS_IS_INITIALIZED &&
                  counted == (rank == 0 ? 128 * size : 0);
  const int failed = verdict("init_unique_id", ok);
  nvshmem_free(counter);
  nvshmem_finalize();
  MPI_Finalize();
  return failed;
}
