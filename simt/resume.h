// SPDX-License-Identifier: Apache-2.0
//
// One slice of a lane, whoever schedules it: CUDA's variables and the C++ runtime's record of
// exceptions are the lane's while it runs.
#pragma once

#include "simt/block.h"
#include "simt/lane.h"
#include "simt/sanitizer.h"
#include "simt/suspend.h"

namespace peal::simt {

/// The calling thread's record of exceptions in flight.
ExceptionState& exceptions_of_thread();

/// Runs `lane` on this thread until it suspends or ends. `exceptions` are the thread's own.
PEAL_SIMT_SWITCH void resume(Lane& lane, ExceptionState& exceptions) {
  threadIdx = lane.thread;
  blockIdx = lane.block->index();
  set_current_lane(&lane);
  const ExceptionState own = exceptions;
  exceptions = lane.exceptions;
  lane.fiber.enter();
  lane.exceptions = exceptions;
  exceptions = own;
}

}  // namespace peal::simt
