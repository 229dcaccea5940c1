// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <cstdlib>
#include <string>

#include "simt/lanes/block.h"
#include "simt/lanes/lane.h"
#include "simt/runtime/assertion.h"
#include "simt/runtime/intrinsics.h"
#include "simt/runtime/state.h"

namespace peal::simt::cuda {
namespace {

std::string this_thread() {
  return "block " + to_string(blockIdx) + ", thread " + to_string(threadIdx) + ": ";
}

}  // namespace

void trap() { throw LaneError(this_thread() + "__trap() was called"); }

void assertion_failed(const char* condition, const char* file, unsigned line,
                      const char* function) {
  if (!in_kernel()) {
    std::fprintf(stderr, "%s:%u: %s: Assertion `%s' failed.\n", file, line, function, condition);
    std::abort();
  }
  throw AssertionError(this_thread() + file + ":" + std::to_string(line) + ": assertion `" +
                       condition + "' failed");
}

}  // namespace peal::simt::cuda
