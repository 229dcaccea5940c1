// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "simt/lanes/block.h"
#include "simt/lanes/launch.h"
#include "simt/runtime/intrinsics.h"

namespace peal::simt::cuda {

void trap() {
  throw LaneError("block " + to_string(blockIdx) + ", thread " + to_string(threadIdx) +
                  ": __trap() was called");
}

}  // namespace peal::simt::cuda
