// SPDX-License-Identifier: Apache-2.0
#include "simt/lanes/worker.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <thread>
#include <utility>

#include "base/run_clock.h"
#include "simt/lanes/lane.h"
#include "simt/lanes/sanitizer.h"
#include "simt/lanes/scheduler.h"
#include "simt/lanes/suspend.h"

namespace peal::simt {
namespace {

using namespace std::chrono_literals;

// The usual wait is for this process's NIC engine, a few microseconds away. Who waits for longer
// naps even while others use the CPU: they may be waiting as well, and two that only yield to each
// other take a core between them.
constexpr auto kPatience = 500us;
constexpr auto kFirstNap = 10us;
constexpr auto kLongestNap = 50us;      // of a wait that is still short
constexpr auto kLongestOfAll = 1000us;  // a wait that is long ends a sixteenth late at most

// A system call costs as much as a dozen slices: few lanes turn several times for each.
constexpr size_t kPassTurns = 32;

// A block begins beside those that are resident when each lane that can run has waited so much. A
// yield says that the lane waits. What breathe() makes of atomics may as well be work, and so may
// turns through barriers and votes: they count less.
constexpr uint64_t kYieldWeight = 1024;
constexpr uint64_t kBreathWeight = 64;

constinit thread_local Worker* worker_of_thread = nullptr;

std::chrono::nanoseconds longest_nap(std::chrono::nanoseconds waited) {
  return std::clamp<std::chrono::nanoseconds>(waited / 16, kLongestNap, kLongestOfAll);
}

}  // namespace

PEAL_SIMT_UNSEEN Worker* this_worker() { return worker_of_thread; }

const void* kernel() {
  if (const Scheduler* const scheduler = scheduler_of_lane(); scheduler != nullptr) {
    return scheduler->kernel();
  }
  return worker_of_thread == nullptr ? nullptr : worker_of_thread->kernel();
}

void Backoff::pass() {
  ::sched_yield();
  const Clock::time_point now = Clock::now();
  if (!waiting_) {
    waiting_ = true;
    since_ = now;
    nap_ = kFirstNap;
    return;
  }
  const Clock::duration waited = now - since_;
  if (waited < kPatience) return;
  std::this_thread::sleep_for(nap_);
  nap_ = std::min(nap_ * 2, longest_nap(waited));
}

void Worker::run() {
  worker_of_thread = this;
  blockDim = program_.threads;
  gridDim = program_.blocks;
  thread_.fibers.set_stack_bytes(program_.limits.stack_bytes);
  thread_.watch.begin(program_.limits.busy_ms);
  try {
    run_lanes();
  } catch (...) {
    program_.outcome.fail(std::current_exception());
  }
  unwind_lanes();
  for (const auto& block : blocks_) acquire_from(block->end_tag());
  thread_.fibers.trim();
  worker_of_thread = nullptr;
  blockDim = gridDim = {1, 1, 1};
  threadIdx = blockIdx = {0, 0, 0};
}

// ---- the thread's own flow

void Worker::run_lanes() {
  while (!program_.outcome.stopped()) {
    if (fresh_ == nullptr && all_wait()) begin_another_block();
    if (yields_ >= std::max(ready_.size(), kPassTurns)) turn();
    if (fresh_ == nullptr && ready_.empty() && !begin_block()) return;
    switch_to(fresh_ != nullptr ? idle_fiber() : next());
  }
}

// All lanes have had their turn, and wait.
void Worker::turn() {
  yields_ = 0;
  may_begin_another_ = true;
  if (stalled_ns_ != 0) check_stall();
  backoff_.pass();
}

// To ThreadSanitizer a block is behind the lanes of the one whose memory it takes over: so others
// are taken as long as there may be.
LaneBlock& Worker::idle_block() {
  constexpr uint64_t kApart = 4096;  // lanes
  const bool may_grow = kThreadSanitized && blocks_.size() * program_.block_lanes < kApart;
  if (idle_blocks_.empty() || may_grow) {
    blocks_.push_back(
        std::make_unique<LaneBlock>(program_.threads, program_.shared_bytes, ready_, this));
    return *blocks_.back();
  }
  LaneBlock& block = kThreadSanitized ? *idle_blocks_.front() : *idle_blocks_.back();
  kThreadSanitized ? idle_blocks_.pop_front() : idle_blocks_.pop_back();
  acquire_from(block.end_tag());
  return block;
}

bool Worker::begin_block() {
  const uint64_t number = program_.next_block();
  if (number >= program_.block_count) return false;
  LaneBlock& block = idle_block();
  block.begin(program_.blocks, number);
  {
    const OfAnother books;
    residents_.add(block.resident());
  }
  release_to(block.start_tag());
  ++blocks_here_;
  fresh_ = &block;
  fresh_at_ = 0;
  return true;
}

// Each worker begins no more than its share of the blocks, so that those of a grid that fits are
// spread over all workers, however late some come.
bool Worker::take_room() const {
  const uint64_t share = (program_.block_count + program_.workers - 1) / program_.workers;
  if (blocks_here_ >= share) return false;
  return program_.cooperative ||
         ResidentLanes::take(program_.block_lanes, program_.limits.max_lanes);
}

bool Worker::all_wait() const {
  return may_begin_another_ && waits_ != 0 && waits_ >= kYieldWeight * ready_.size();
}

// What the lanes here wait for may be done by a block that has not begun.
void Worker::begin_another_block() {
  may_begin_another_ = false;
  if (program_.all_begun()) return;
  if (!take_room()) {
    if (stalled_ns_ == 0) stalled_ns_ = peal::running_ns();
    return;
  }
  may_begin_another_ = begin_block();
  if (!may_begin_another_ && !program_.cooperative) ResidentLanes::give_back(program_.block_lanes);
}

void Worker::check_stall() {
  const uint64_t limit_ms = program_.limits.stall_ms;
  if (program_.all_begun()) return got_on();
  if (limit_ms == 0 || peal::running_ns() - stalled_ns_ < limit_ms * 1'000'000) return;
  if (!gave_up_) ++program_.gave_up;
  gave_up_ = true;
  if (program_.gave_up != program_.workers) return;  // another one gets on
  throw LaneError(
      "launch: of " + std::to_string(program_.block_count) + " blocks " +
      std::to_string(program_.begun()) + " have begun, and for " + std::to_string(limit_ms) +
      " ms no lane of those that are resident has ended or got on: they may wait for a block that "
      "has no room (Limits::max_lanes = " +
      std::to_string(program_.limits.max_lanes) +
      "). Blocks that wait for each other must all be resident: launch fewer, or raise the limit "
      "by SIMT_MAX_LANES or set_limits()");
}

PEAL_SIMT_UNSEEN void Worker::switch_to(Fiber& fiber) {
  if (&fiber == &thread_.own) return;
  thread_.own.switch_to(fiber);
  thread_.exceptions = own_exceptions_;
  set_current_lane(nullptr);
}

void Worker::unwind_lanes() {
  fresh_ = nullptr;
  while (residents_.first != nullptr) {
    LaneBlock& block = *residents_.first->lanes->block;
    for (Lane& lane : block.lanes()) {
      if (!lane.started || lane.ended) continue;
      lane.abandoned = true;
      show(lane);
      switch_to(*lane.fiber);  // an abandoned lane does not suspend again
    }
    retire(block);
  }
}

// ---- a fiber's flow

PEAL_SIMT_UNSEEN void Worker::serve(Fiber& fiber) {
  for (;;) {
    worker_of_thread->run_lanes_on(fiber);
    Fiber& to = worker_of_thread->stand_down(fiber);
    if (&to != &fiber) fiber.switch_to(to);
  }
}

PEAL_SIMT_SWITCH bool Worker::may_begin_lane() const {
  const OfAnother books;
  return fresh_ != nullptr && !program_.outcome.stopped();
}

PEAL_SIMT_SWITCH Lane& Worker::begin_lane(LaneBlock& block, Fiber& fiber) {
  const OfAnother books;
  Lane& lane = block.lanes()[fresh_at_];
  if (++fresh_at_ == block.lanes().size()) fresh_ = nullptr;
  name_fiber(fiber.stack(), lane);
  lane.fiber = &fiber;
  lane.started = true;
  thread_.watch.count_slice();
  thread_.thread_index = lane.thread;
  thread_.lane = &lane;
  calm_ = &lane;
  return lane;
}

PEAL_SIMT_SWITCH void Worker::end_at_once(Lane& lane) {
  const OfAnother books;
  lane.ended = true;
  ++unbooked_;
  if (fresh_ == nullptr) book(*lane.block, lane.block->lanes().size());
}

// Lanes of one block, until one of them has waited.
PEAL_SIMT_UNSEEN void Worker::run_lanes_on(Fiber& fiber) {
  if (fresh_ == nullptr) return;
  LaneBlock& block = *fresh_;
  thread_.block_index = block.index();
  while (may_begin_lane()) {
    Lane& lane = begin_lane(block, fiber);
    acquire_from(block.start_tag());
    run_body();
    release_to(block.end_tag());
    if (calm_ != &lane) return end(lane);
    end_at_once(lane);
    if (kThreadSanitized) return;  // to which what runs on one fiber is in order
  }
}

void Worker::run_body() {
  try {
    program_.lane_body();
  } catch (const Abandoned&) {
  } catch (...) {
    program_.outcome.fail(std::current_exception());
  }
}

void Worker::end(Lane& lane) {
  const OfAnother books;
  lane.request.call = LaneCall::kExit;
  if (lane.abandoned) {
    lane.ended = true;
    return;
  }
  take_request(lane);
  got_on();
  if (lane.block->live() == 0) retire(*lane.block);
}

void Worker::book(LaneBlock& block, size_t before) {
  const size_t count = std::exchange(unbooked_, 0);
  try {
    block.end(before - count, count);
  } catch (...) {
    program_.outcome.fail(std::current_exception());
  }
  got_on();
  if (block.live() == 0) retire(block);
}

Fiber& Worker::stand_down(Fiber& fiber) {
  const OfAnother books;
  thread_.fibers.give_back(fiber);
  return next();
}

// ---- both

// Called on the lane, which has asked for something: takes that, and says who runs next.
Fiber& Worker::pass_on(Lane& lane) {
  const OfAnother books;
  calm_ = nullptr;
  if (unbooked_ != 0) {
    book(*lane.block, static_cast<size_t>(&lane - lane.block->lanes().data()));
  }
  lane.exceptions = thread_.exceptions;
  take_request(lane);
  if (lane.request.call == LaneCall::kYield) {
    // Only yields make a pass: a loop that also votes or shuffles each turn spins all the same.
    ++yields_;
    waits_ += lane.request.value == 0 ? kYieldWeight : kBreathWeight;
  } else {
    ++waits_;
  }
  if (take_progress()) got_on();
  return next();
}

Fiber& Worker::next() {
  const OfAnother books;
  if (program_.outcome.stopped()) return thread_.own;
  // To ThreadSanitizer a fiber is behind whoever made it: that shall be no lane.
  if (fresh_ != nullptr) return kThreadSanitized ? thread_.own : idle_fiber();
  if (ready_.empty() || all_wait() || yields_ >= std::max(ready_.size(), kPassTurns)) {
    return thread_.own;
  }
  Lane& lane = ready_.pop();
  show(lane);
  return *lane.fiber;
}

// The thread's own where there is none.
Fiber& Worker::idle_fiber() {
  try {
    Fiber& fiber = thread_.fibers.take();
    thread_.exceptions = {};
    return fiber;
  } catch (...) {
    program_.outcome.fail(std::current_exception());
    return thread_.own;
  }
}

void Worker::show(Lane& lane) {
  const OfAnother books;
  thread_.watch.count_slice();
  thread_.thread_index = lane.thread;
  thread_.block_index = lane.block->index();
  thread_.exceptions = lane.exceptions;
  thread_.lane = &lane;
}

void Worker::take_request(Lane& lane) {
  try {
    lane.block->take_request(lane);
  } catch (...) {
    program_.outcome.fail(std::current_exception());
  }
}

// A wait has ended, and so has the time in which nobody got on.
void Worker::got_on() {
  waits_ = 0;
  backoff_.reset();
  stalled_ns_ = 0;
  if (std::exchange(gave_up_, false)) --program_.gave_up;
}

void Worker::retire(LaneBlock& block) {
  residents_.remove(block.resident());
  idle_blocks_.push_back(&block);
  --blocks_here_;
  if (blocks_here_ != 0 && !program_.cooperative) ResidentLanes::give_back(program_.block_lanes);
  may_begin_another_ = true;
}

}  // namespace peal::simt
