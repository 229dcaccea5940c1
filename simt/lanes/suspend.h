// SPDX-License-Identifier: Apache-2.0
//
// The door between a lane and whoever schedules it: CUDA's variables and the C++ runtime's record
// of exceptions are the lane's while it runs.
#pragma once

#include <memory>

#include "simt/lanes/block.h"
#include "simt/lanes/lane.h"
#include "simt/lanes/sanitizer.h"
#include "simt/lanes/stack_pool.h"

namespace peal::simt {

/// Leaves a lane whose launch stopped, so that its destructors run. Not a std::exception: a kernel
/// that handles those does not hold it up.
struct Abandoned {};

/// The lane that runs on this thread; null outside a kernel.
Lane* current_lane();
/// The worker names the lane it resumes.
void set_current_lane(Lane* lane);
/// What current_lane() answers on this thread.
Lane*& current_lane_of_thread();

/// A yield() that leaves by no exception: the next call that may will.
void give_way(Lane& lane);

/// Never to be resumed: a lane that was abandoned and does not end.
[[noreturn]] void leave_for_good(Lane& lane);

/// True when a lane of this thread called progressed() since the last call.
bool take_progress();

/// Tells ThreadSanitizer what to call the lane in its reports; nothing in other builds.
void name_fiber(const Stack& stack, const Lane& lane);

/// The calling thread's record of exceptions in flight.
ExceptionState& exceptions_of_thread();

/// Runs `lane` on its fiber until it suspends or ends: for the one whose flow `home` is.
/// `exceptions` are the thread's own.
PEAL_SIMT_SWITCH void resume(Lane& lane, Fiber& home, ExceptionState& exceptions) {
  threadIdx = lane.thread;
  blockIdx = lane.block->index();
  set_current_lane(&lane);
  const ExceptionState own = exceptions;
  exceptions = lane.exceptions;
  home.switch_to(*lane.fiber);
  lane.exceptions = exceptions;
  exceptions = own;
}

}  // namespace peal::simt
