// SPDX-License-Identifier: Apache-2.0
//
// What a thread keeps that runs lanes, from launch to launch: warm stacks, its watch, and where its
// variables are.
#pragma once

#include "simt/lanes/block.h"
#include "simt/lanes/fibers.h"
#include "simt/lanes/watch.h"

namespace peal::simt {

class LaneThread {
 public:
  /// The calling thread's, made at the first call.
  static LaneThread& of_this();
  LaneThread();
  LaneThread(const LaneThread&) = delete;
  LaneThread& operator=(const LaneThread&) = delete;

  Fibers fibers;
  Fiber own;  // its flow of control while fibers run
  SignalWatch watch;
  // What the lane that runs has: thread-local variables, whose addresses cost a call each.
  ExceptionState& exceptions;
  Lane*& lane;
  Dim3& thread_index;
  Dim3& block_index;
};

}  // namespace peal::simt
