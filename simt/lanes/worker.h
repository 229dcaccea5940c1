// SPDX-License-Identifier: Apache-2.0
//
// A thread's part of a launch: it begins one block after another, and runs their lanes in turn.
//
//   block begins --> its lanes begin, one after another, on one fiber
//     lane ends            the next one begins on the same fiber: a loop, whose lanes are booked
//                          as ended when one of them waits, or when the block has no other
//     lane has to wait     the fiber is the lane's until that ends; the next begins on another
//   lanes that can go on take turns, each switching to the next; the thread's own flow comes in
//   between when a block is to begin, when all lanes wait, and when nothing is left
//
// Invariant: the lanes of a worker run on its thread only, one at a time.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "simt/lanes/block.h"
#include "simt/lanes/fibers.h"
#include "simt/lanes/lane_thread.h"
#include "simt/lanes/launch_state.h"
#include "simt/lanes/ready.h"

namespace peal::simt {

/// What a worker does between two passes over lanes that all spin: offers its CPU to other threads,
/// and after a long wait naps. Up to 8 processes with their workers and NIC
/// engines share the CPUs, and the one that waits must not starve the one it waits for.
class Backoff {
 public:
  /// A lane got on: the wait starts anew.
  void reset() { waiting_ = false; }

  /// Every lane has spun once more. Takes a sixteenth of the wait so far at most, or 50 us, plus a
  /// scheduling delay.
  void pass();

 private:
  using Clock = std::chrono::steady_clock;

  bool waiting_ = false;
  Clock::time_point since_;
  std::chrono::nanoseconds nap_{0};
};

class Worker {
 public:
  /// The worker of the calling thread. It keeps `residents` up to date for a debugger.
  Worker(LaunchState& program, ResidentBlocks& residents)
      : program_(program), residents_(residents) {}
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  const void* kernel() const { return program_.kernel; }
  uint64_t most_resident_blocks() const { return program_.most_resident_blocks(); }
  /// A word for what the kernel of this launch has of its own.
  void*& word() { return word_; }

  /// Returns when no block is left for it and all its lanes ended or, after a failure, were
  /// unwound.
  void run();

  /// Called on a lane that has asked for something: others run until it can go on.
  void leave(Lane& lane);

  /// The lane's fiber, between lanes.
  [[noreturn]] static void serve(Fiber& fiber);

 private:
  void run_lanes();
  // The thread's own flow.
  void turn();
  bool begin_block();
  LaneBlock& idle_block();
  void begin_another_block();
  bool all_wait() const;
  bool take_room() const;
  void check_stall();
  void switch_to(Fiber& fiber);
  void unwind_lanes();
  // A fiber's.
  void run_lanes_on(Fiber& fiber);
  bool may_begin_lane() const;
  Lane& begin_lane(LaneBlock& block, Fiber& fiber);
  void run_body();
  void end(Lane& lane);
  void end_at_once(Lane& lane);
  void book(LaneBlock& block, size_t before);
  Fiber& stand_down(Fiber& fiber);
  // Both.
  Fiber& pass_on(Lane& lane);
  Fiber& next();
  Fiber& idle_fiber();
  void show(Lane& lane);
  void take_request(Lane& lane);
  void got_on();
  void retire(LaneBlock& block);

  LaunchState& program_;
  ResidentBlocks& residents_;
  LaneThread& thread_ = LaneThread::of_this();
  const ExceptionState own_exceptions_ = thread_.exceptions;
  Ready ready_;
  LaneBlock* fresh_ = nullptr;  // some of its lanes have not begun; null: there is none
  size_t fresh_at_ = 0;         // the first of these
  Lane* calm_ = nullptr;        // the lane that has begun last, until it waits
  size_t unbooked_ = 0;         // lanes in front of it that have ended without that
  uint64_t waits_ = 0;          // of lanes since one has ended or got on, by their weight
  size_t yields_ = 0;           // since the last pass
  Backoff backoff_;
  uint64_t blocks_here_ = 0;
  bool may_begin_another_ = true;
  uint64_t stalled_ns_ = 0;  // since when no block can begin and no lane gets on; 0: one does
  bool gave_up_ = false;     // that was too long ago
  std::vector<std::unique_ptr<LaneBlock>> blocks_;
  std::deque<LaneBlock*> idle_blocks_;
  void* word_ = nullptr;
};

/// The worker whose lanes this thread runs; null: none.
Worker* this_worker();

PEAL_SIMT_SWITCH void Worker::leave(Lane& lane) {
  Fiber& from = *lane.fiber;
  Fiber& to = pass_on(lane);
  if (&to != &from) from.switch_to(to);
}

}  // namespace peal::simt
