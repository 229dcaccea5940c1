// SPDX-License-Identifier: Apache-2.0
//
// libfake_nvml.so: libnvidia-ml for the GPUs of libfake_cuda.so, all of which are alike to it. The
// test and the library share a FakeNvml.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "tests/support/built.h"

struct FakeNvml {
  // What the test sets.
  int refuse_start = 0;
  int gpus = 8;  // that it knows: the last byte of their id is up to this
  bool peer_access = true;
  bool nvlink = true;
  bool atomics = true;
  char cluster = 0;  // of the fabric; 0: none
  uint32_t clique = 0;

  // What the test reads.
  std::atomic<int> live{0};  // starts without an end
};

extern "C" FakeNvml* fake_nvml();

inline std::string fake_nvml_path() {
  return peal::built("tests/support/libfake_nvml.so").string();
}

inline FakeNvml& load_fake_nvml() {
  return peal::stand_in<FakeNvml>(fake_nvml_path(), "fake_nvml");
}
