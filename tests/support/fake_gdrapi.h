// SPDX-License-Identifier: Apache-2.0
//
// libfake_gdrapi.so: libgdrapi's calls, which map the memory of libfake_cuda.so a second time. The
// test and the library share a FakeGdrapi.
//
// It holds callers to what the real library wants: whole pages of a GPU that lie in one allocation,
// a current context, unmap before unpin, both before the memory ends. A mapping that is gone is no
// memory any more.
#pragma once

#include <atomic>
#include <cstddef>
#include <string>

#include "tests/support/built.h"

struct FakeGdrapi {
  // What the test sets.
  std::atomic<bool> driver{true};  // gdrdrv is loaded
  std::atomic<int> refuse_pin{0};  // errno
  std::atomic<int> refuse_map{0};
  std::atomic<int> refuse_info{0};
  std::atomic<int> kind{1};            // gdr_mapping_type_t of what is mapped
  std::atomic<bool> elsewhere{false};  // what is mapped is other memory
  std::atomic<size_t> early{0};        // bytes by which a mapping claims to begin earlier

  // What the test reads.
  std::atomic<int> live{0};  // sessions, pinned buffers, mappings
  std::atomic<int> pins{0};
  std::atomic<int> copies_in{0};
  std::atomic<int> copies_out{0};
  std::atomic<int> mistakes{0};  // of callers
};

extern "C" FakeGdrapi* fake_gdrapi();

inline std::string fake_gdrapi_path() {
  return peal::built("tests/support/libfake_gdrapi.so").string();
}

inline FakeGdrapi& load_fake_gdrapi() {
  return peal::stand_in<FakeGdrapi>(fake_gdrapi_path(), "fake_gdrapi");
}
