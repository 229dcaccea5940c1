// SPDX-License-Identifier: Apache-2.0
#include "simt/lanes/lane_thread.h"

#include <cxxabi.h>
#include <sys/prctl.h>

#include "simt/lanes/lane.h"
#include "simt/lanes/suspend.h"
#include "simt/lanes/worker.h"

namespace peal::simt {

ExceptionState& exceptions_of_thread() {
  return *reinterpret_cast<ExceptionState*>(abi::__cxa_get_globals());
}

LaneThread& LaneThread::of_this() {
  thread_local LaneThread the_one;
  return the_one;
}

LaneThread::LaneThread()
    : fibers(&Worker::serve),
      exceptions(exceptions_of_thread()),
      lane(current_lane_of_thread()),
      thread_index(threadIdx),
      block_index(blockIdx) {
  // Linux may stretch a sleep by 50 us otherwise, which would double a nap.
  ::prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL);
}

}  // namespace peal::simt
