// SPDX-License-Identifier: Apache-2.0
//
// What one block of a grid does on a DeviceRig, the others doing nothing: the queue is that of its
// number.
#pragma once

#include <cstdint>

#include "device/base/launch.h"
#include "tests/support/device_rig.h"

namespace peal::testing {

using Deed = Status (*)(const Context&, std::byte* heap);

PEAL_KERNEL do_as_block(Context ctx, uint32_t block, Deed deed, std::byte* heap, Status* answer) {
  if (block_in_grid() == block) *answer = deed(ctx, heap);
}

/// Done and answered by the NICs, also where the deed did not wait.
inline Status run_as_block(DeviceRig& rig, uint32_t block, Deed deed) {
  Status answer = Status::kTimeout;
  {
    const NicThread nics(rig);
    launch({.blocks = block + 1, .threads = 1}, do_as_block, rig.context(), block, deed, rig.heap(),
           &answer)
        .wait();
  }
  rig.step_all();
  return answer;
}

}  // namespace peal::testing
