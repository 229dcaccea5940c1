// SPDX-License-Identifier: Apache-2.0
//
// What tests of compat/ share: the PE is the process's, and kernels reach it without an argument.
#pragma once

#include <mpi.h>

#include <cstdlib>
#include <string>

#include "compat/nvshmem.h"
#include "tests/support/job.h"

namespace peal::compat_test {

using api_test::expect;
using api_test::expect_eq;
using api_test::Verdict;

/// Symmetric memory for the length of a scope; construction and destruction are collective.
template <class T>
class Symmetric {
 public:
  explicit Symmetric(size_t count) : data_(static_cast<T*>(nvshmem_calloc(count, sizeof(T)))) {}
  ~Symmetric() { nvshmem_free(data_); }
  Symmetric(const Symmetric&) = delete;
  Symmetric& operator=(const Symmetric&) = delete;
  T* data() const { return data_; }
  T& operator[](size_t i) const { return data_[i]; }

 private:
  T* data_;
};

/// Runs a kernel on this PE; all must have come and no call may have failed.
template <class... Parameters, class... Arguments>
void run_here(const Grid& grid, void (*kernel)(Verdict*, Parameters...), Arguments&&... arguments) {
  api_test::run(grid, kernel, std::forward<Arguments>(arguments)...);
  EXPECT_EQ(nvshmemx_peal_status(), 0) << nvshmemx_peal_failure();
  nvshmem_barrier_all();
}

inline int next_pe() { return (nvshmem_my_pe() + 1) % nvshmem_n_pes(); }
inline int previous_pe() { return (nvshmem_my_pe() + nvshmem_n_pes() - 1) % nvshmem_n_pes(); }

/// Begins anew: what failed is forgotten.
inline void begin_anew() {
  nvshmem_finalize();
  EXPECT_EQ(nvshmemx_init_status(), NVSHMEM_STATUS_NOT_INITIALIZED);
  nvshmem_init();
  EXPECT_EQ(nvshmemx_peal_status(), 0) << nvshmemx_peal_failure();
}

/// The main() of these programs; --transport=X is PEAL_TRANSPORT. They begin MPI themselves, so
/// that it outlives each nvshmem_finalize(): else it could begin only once, and nvshmem_init() with
/// it.
inline int run_tests(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument.starts_with("--transport=")) {
      ::setenv("PEAL_TRANSPORT", argument.substr(12).c_str(), 1);
    }
  }
  nvshmem_init();
  const int result = RUN_ALL_TESTS();
  nvshmem_finalize();
  MPI_Finalize();
  return result;
}

}  // namespace peal::compat_test
