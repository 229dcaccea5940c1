// SPDX-License-Identifier: Apache-2.0
//
// libfake_cufile.so: libcufile's calls by pread and pwrite, for the memory of libfake_cuda.so. The
// test and the library share a FakeCuFile.
#pragma once

#include <atomic>
#include <cstddef>
#include <string>

#include "tests/support/built.h"

struct FakeCuFile {
  // What the test sets: CUfileOpErrors.
  std::atomic<int> refuse_driver{0};
  std::atomic<int> refuse_handle{0};
  std::atomic<int> refuse_buffer{0};
  std::atomic<int> refuse_transfer{0};  // from the second on
  std::atomic<int> transfer_errno{0};   // the same, as -1 and errno
  std::atomic<size_t> longest{0};       // bytes that one transfer moves; 0: all

  // What the test reads.
  std::atomic<int> live{0};  // handles and buffers
  std::atomic<int> transfers{0};
  std::atomic<int> buffers{0};  // that were registered
};

extern "C" FakeCuFile* fake_cufile();

inline std::string fake_cufile_path() {
  return peal::built("tests/support/libfake_cufile.so").string();
}

inline FakeCuFile& load_fake_cufile() {
  return peal::stand_in<FakeCuFile>(fake_cufile_path(), "fake_cufile");
}
