// SPDX-License-Identifier: Apache-2.0
//
// The scheduling loop, and how a lane begins and ends.
#include "simt/worker.h"

#include <cxxabi.h>
#include <sys/prctl.h>

#include <algorithm>
#include <utility>

#include "simt/lane.h"
#include "simt/resume.h"
#include "simt/sanitizer.h"
#include "simt/suspend.h"

namespace peal::simt {
namespace {

// A system call costs as much as a dozen slices: few lanes turn several times for each.
constexpr size_t kPassTurns = 32;

constinit thread_local Worker* this_worker = nullptr;

}  // namespace

void Outcome::fail(std::exception_ptr error) {
  const std::lock_guard lock(mutex_);
  if (error_ == nullptr) error_ = std::move(error);
  stopped_.store(true, std::memory_order_relaxed);
}

ExceptionState& exceptions_of_thread() {
  return *reinterpret_cast<ExceptionState*>(abi::__cxa_get_globals());
}

Dim3 block_index(const Dim3& blocks, uint64_t number) {
  const uint64_t row = number / blocks.x;
  return {static_cast<unsigned>(number % blocks.x), static_cast<unsigned>(row % blocks.y),
          static_cast<unsigned>(row / blocks.y)};
}

void Worker::add(uint64_t number) {
  const Dim3 index = block_index(program_.blocks, number);
  blocks_.emplace_back(index, program_.threads, program_.shared_bytes, ready_);
  uint64_t rank = number * program_.threads.count();
  for (Lane& lane : blocks_.back().lanes()) lane.rank = rank++;
}

void Worker::run() {
  this_worker = this;
  blockDim = program_.threads;
  gridDim = program_.blocks;
  exceptions_ = &exceptions_of_thread();
  // Linux may stretch a sleep by 50 us otherwise, which would double a nap.
  ::prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL);
  release_to(&start_tag_);
  try {
    run_lanes();
  } catch (...) {
    program_.outcome.fail(std::current_exception());
  }
  unwind_lanes();
  set_current_lane(nullptr);
  acquire_from(&end_tag_);
}

void Worker::run_lanes() {
  while (!ready_.empty() && !program_.outcome.stopped()) {
    Lane& lane = ready_.pop();
    if (!lane.started) start(lane);
    resume(lane, *exceptions_);
    const bool spins = lane.request.call == Call::kYield;
    lane.block->settle(lane);
    if (lane.ended || take_progress()) backoff_.reset();
    // Only yields make a pass: a loop that also votes or shuffles each turn spins all the same.
    if (!spins || ++yields_ < std::max(ready_.size(), kPassTurns)) continue;
    yields_ = 0;
    backoff_.pass();
  }
}

void Worker::unwind_lanes() {
  for (Block& block : blocks_) {
    for (Lane& lane : block.lanes()) {
      if (!lane.started || lane.ended) continue;
      lane.abandoned = true;
      resume(lane, *exceptions_);  // an abandoned lane does not suspend again
    }
  }
}

void Worker::start(Lane& lane) {
  constexpr size_t kLine = 64;
  const unsigned place = lane.rank % kSlabStacks;
  lane.started = true;
  lane.fiber.start(program_.slabs[lane.rank / kSlabStacks]->at(place), place * kLine,
                   &Worker::enter_lane, &lane);
}

PEAL_SIMT_UNSEEN void Worker::enter_lane(void* argument) {
  Lane& lane = *static_cast<Lane*>(argument);
  Worker& worker = *this_worker;
  acquire_from(&worker.start_tag_);
  worker.run_body();
  release_to(&worker.end_tag_);
  lane.request.call = Call::kExit;
  lane.fiber.finish();
}

void Worker::run_body() {
  try {
    program_.lane_body();
  } catch (const Abandoned&) {
  } catch (...) {
    program_.outcome.fail(std::current_exception());
  }
}

}  // namespace peal::simt
