// SPDX-License-Identifier: Apache-2.0
//
// What the programs of this folder end by: each call is looked at, each result is compared, and the
// last line says whether all of it was right.
#pragma once

#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(call)                                                                            \
  do {                                                                                         \
    const cudaError_t error_of_call = (call);                                                  \
    if (error_of_call != cudaSuccess) {                                                        \
      printf("%s:%d: %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorString(error_of_call)); \
      exit(1);                                                                                 \
    }                                                                                          \
  } while (0)

inline int& wrong_results() {
  static int count = 0;
  return count;
}

#define EXPECT(condition)                                                   \
  do {                                                                      \
    if (!(condition) && ++wrong_results() < 20) {                           \
      printf("%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition); \
    }                                                                       \
  } while (0)

inline int verdict(const char* program) {
  CHECK(cudaDeviceSynchronize());
  printf("%s: %s\n", program, wrong_results() == 0 ? "ok" : "WRONG");
  return wrong_results() != 0;
}
