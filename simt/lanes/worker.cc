// SPDX-License-Identifier: Apache-2.0
#include "simt/lanes/worker.h"

#include <cxxabi.h>
#include <sched.h>
#include <sys/prctl.h>

#include <algorithm>
#include <thread>
#include <utility>

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

constinit thread_local Worker* this_worker = nullptr;

std::chrono::nanoseconds longest_nap(std::chrono::nanoseconds waited) {
  return std::clamp<std::chrono::nanoseconds>(waited / 16, kLongestNap, kLongestOfAll);
}

}  // namespace

const void* kernel() {
  if (const Scheduler* const scheduler = scheduler_of_lane(); scheduler != nullptr) {
    return scheduler->kernel();
  }
  return this_worker == nullptr ? nullptr : this_worker->kernel();
}

void LaunchOutcome::fail(std::exception_ptr error) {
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
  {
    const std::lock_guard lock(watch_mutex_);
    watch_.emplace(program_.busy_ms, slices_, program_.bell);
  }
  try {
    run_lanes();
  } catch (...) {
    program_.outcome.fail(std::current_exception());
  }
  unwind_lanes();
  set_current_lane(nullptr);
  {
    const std::lock_guard lock(watch_mutex_);
    watch_.reset();
  }
  acquire_from(&end_tag_);
  program_.ended.fetch_add(1);
  program_.bell.ring();
}

void Worker::tell_of_busy_lane() {
  BusyLane found;
  const std::lock_guard lock(watch_mutex_);
  if (watch_ && watch_->take(&found)) tell(found, program_.busy_ms);
}

void Worker::run_lanes() {
  while (!ready_.empty() && !program_.outcome.stopped()) {
    Lane& lane = ready_.pop();
    if (!lane.started) begin(lane);
    slices_.store(slices_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    resume(lane, *exceptions_);
    const bool spins = lane.request.call == LaneCall::kYield;
    lane.block->settle(lane);
    if (lane.ended || take_progress()) backoff_.reset();
    // Only yields make a pass: a loop that also votes or shuffles each turn spins all the same.
    if (!spins || ++yields_ < std::max(ready_.size(), kPassTurns)) continue;
    yields_ = 0;
    backoff_.pass();
  }
}

void Worker::begin(Lane& lane) {
  const Stack stack = program_.slabs[lane.rank / kSlabStacks]->at(lane.rank % kSlabStacks);
  start(lane, stack, lane.rank, &Worker::enter_lane);
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

PEAL_SIMT_UNSEEN void Worker::enter_lane(void* argument) {
  Lane& lane = *static_cast<Lane*>(argument);
  Worker& worker = *this_worker;
  acquire_from(&worker.start_tag_);
  worker.run_body();
  release_to(&worker.end_tag_);
  lane.request.call = LaneCall::kExit;
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
