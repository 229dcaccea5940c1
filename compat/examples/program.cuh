// SPDX-License-Identifier: Apache-2.0
//
// What the programs of this folder share: CUDA's errors, arrays that are filled and looked at by
// the host, and the verdict of all PEs.
#pragma once

#include <cuda_runtime.h>
#include <nvshmem.h>
#include <nvshmemx.h>
#include <stdio.h>
#include <stdlib.h>

#include <vector>

#define CUDA_CHECK(call)                                                                        \
  do {                                                                                          \
    const cudaError_t error = (call);                                                           \
    if (error != cudaSuccess) {                                                                 \
      fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorString(error)); \
      exit(1);                                                                                  \
    }                                                                                           \
  } while (0)

// Takes the GPU that this PE has on its node; several PEs may share one.
static inline void take_gpu() {
  int devices = 0;
  CUDA_CHECK(cudaGetDeviceCount(&devices));
  CUDA_CHECK(cudaSetDevice(nvshmem_team_my_pe(NVSHMEMX_TEAM_NODE) % devices));
}

static inline void begin() {
  nvshmem_init();
  take_gpu();
}

// Element i of the `count` at `to` becomes value(i).
template <class T, class Value>
static void fill(T* to, int count, const Value& value) {
  std::vector<T> host(count);
  for (int i = 0; i < count; ++i) host[i] = value(i);
  CUDA_CHECK(cudaMemcpy(to, host.data(), count * sizeof(T), cudaMemcpyHostToDevice));
}

// Whether element i of the `count` at `from` is value(i).
template <class T, class Value>
static bool holds(const T* from, int count, const Value& value) {
  std::vector<T> host(count);
  CUDA_CHECK(cudaMemcpy(host.data(), from, count * sizeof(T), cudaMemcpyDeviceToHost));
  bool all = true;
  for (int i = 0; i < count; ++i) all = all && host[i] == value(i);
  return all;
}

// PE 0 prints one line: ok, if all PEs say so. The program's exit code.
static inline int verdict(const char* program, bool ok) {
  int* all = (int*)nvshmem_malloc(sizeof(int));
  int* mine = (int*)nvshmem_malloc(sizeof(int));
  int value = ok ? 1 : 0;
  CUDA_CHECK(cudaMemcpy(mine, &value, sizeof(int), cudaMemcpyHostToDevice));
  nvshmem_int_min_reduce(NVSHMEM_TEAM_WORLD, all, mine, 1);
  CUDA_CHECK(cudaMemcpy(&value, all, sizeof(int), cudaMemcpyDeviceToHost));
  if (nvshmem_my_pe() == 0) {
    printf("%s: %s on %d PEs\n", program, value ? "ok" : "WRONG", nvshmem_n_pes());
  }
  nvshmem_free(mine);
  nvshmem_free(all);
  return value ? 0 : 1;
}
