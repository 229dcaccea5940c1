// SPDX-License-Identifier: Apache-2.0
//
// A program of MPI that gives its communicator to nvshmemx_init_attr, and uses both.
#include <mpi.h>

#include "program.cuh"

__global__ void shift(int* box) {
  nvshmem_int_p(box, nvshmem_my_pe(), (nvshmem_my_pe() + 1) % nvshmem_n_pes());
  nvshmem_barrier_all();
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  int size = 0;
  MPI_Comm comm = MPI_COMM_WORLD;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);

  nvshmemx_init_attr_t attr = NVSHMEMX_INIT_ATTR_INITIALIZER;
  attr.mpi_comm = &comm;
  if (nvshmemx_init_attr(NVSHMEMX_INIT_WITH_MPI_COMM, &attr) != 0) return 1;
  take_gpu();
  int* box = (int*)nvshmem_malloc(sizeof(int));
  void* args[] = {&box};
  nvshmemx_collective_launch((const void*)shift, 1, 1, args, 0, 0);
  CUDA_CHECK(cudaDeviceSynchronize());

  int told = -1;
  CUDA_CHECK(cudaMemcpy(&told, box, sizeof(int), cudaMemcpyDeviceToHost));
  int sum = 0;
  MPI_Allreduce(&told, &sum, 1, MPI_INT, MPI_SUM, comm);
  const bool ok = nvshmem_my_pe() == rank && nvshmem_n_pes() == size &&
                  told == (rank + size - 1) % size && sum == size * (size - 1) / 2;
  const int failed = verdict("init_mpi", ok);
  nvshmem_free(box);
  nvshmem_finalize();
  MPI_Finalize();
  return failed;
}
