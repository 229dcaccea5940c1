// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "simt/block.h"
#include "simt/launch.h"
#include "simt/runtime/intrinsics.h"

namespace peal::simt::cuda {

void trap() {
  throw Error("block " + to_string(blockIdx) + ", thread " + to_string(threadIdx) +
              ": __trap() was called");
}

}  // namespace peal::simt::cuda
