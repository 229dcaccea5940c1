// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "simt/launch.h"
#include "simt/runtime/intrinsics.h"

namespace peal::simt::cuda {
namespace {

std::string to_string(const Dim3& index) {
  return "(" + std::to_string(index.x) + "," + std::to_string(index.y) + "," +
         std::to_string(index.z) + ")";
}

}  // namespace

void trap() {
  throw Error("block " + to_string(blockIdx) + ", thread " + to_string(threadIdx) +
              ": __trap() was called");
}

}  // namespace peal::simt::cuda
