// SPDX-License-Identifier: Apache-2.0
//
// The door between a lane and its worker.
#pragma once

#include "simt/block.h"

namespace peal::simt {

/// Leaves a lane whose launch stopped, so that its destructors run. Not a std::exception: a kernel
/// that handles those does not hold it up.
struct Abandoned {};

/// The lane that runs on this thread; null outside a kernel.
Lane* current_lane();
/// The worker names the lane it resumes.
void set_current_lane(Lane* lane);

/// A yield() that leaves by no exception: the next call that may will.
void give_way(Lane& lane);

/// The clock of the simulation that runs on this thread.
uint64_t simulated_ns();

/// True when a lane of this thread called progressed() since the last call.
bool take_progress();

}  // namespace peal::simt
