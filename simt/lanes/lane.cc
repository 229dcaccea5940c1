// SPDX-License-Identifier: Apache-2.0
//
// Device code's side: every call becomes a Request, or is answered at once when no other lane is
// concerned.
#include "simt/lanes/lane.h"

#include <exception>
#include <string>
#include <thread>

#include "base/clock.h"
#include "base/run_clock.h"
#include "simt/lanes/launch.h"
#include "simt/lanes/sanitizer.h"
#include "simt/lanes/scheduler.h"
#include "simt/lanes/shared_memory.h"
#include "simt/lanes/suspend.h"
#include "simt/lanes/worker.h"

namespace peal::simt {
namespace {

constinit thread_local Lane* current = nullptr;
constinit thread_local Scheduler* current_scheduler = nullptr;

constinit thread_local bool progress_made = false;

constexpr unsigned kCallsPerBreath = 64;
constinit thread_local unsigned calls_left = kCallsPerBreath;

/// Leaves the lane. What a scheduler runs is one thread to ThreadSanitizer too: what its lanes may
/// see of each other the scheduler says.
PEAL_SIMT_SWITCH void leave(Lane& lane) {
  if (Worker* const worker = lane.block->worker(); worker != nullptr) return worker->leave(lane);
  Scheduler& scheduler = *lane.block->scheduler();
  release_to(&scheduler);
  lane.fiber->switch_to(scheduler.home());
  acquire_from(&scheduler);
}

/// Asks for `request`; returns the answer once the lane runs again. Throws Abandoned
/// when the launch stopped; while an exception is already unwinding the lane, returns kUndefined
/// instead.
PEAL_SIMT_SWITCH uint64_t suspend(Lane& lane, const LaneRequest& request) {
  if (!lane.abandoned) {
    lane.request = request;
    leave(lane);
  }
  if (!lane.abandoned) return lane.result;
  // A throw from a destructor that an exception called would end the process.
  if (std::uncaught_exceptions() == 0) throw Abandoned();
  return kUndefined;
}

uint32_t existing(const Lane& lane, uint32_t mask) { return mask & lane.warp->all(); }

/// The answer to a collective over `mask`, or nothing asked of the worker when the caller is alone.
uint64_t meet(Lane& lane, const LaneRequest& request, uint64_t answer_alone) {
  if (existing(lane, request.mask) == lane.bit()) return answer_alone;
  return suspend(lane, request);
}

}  // namespace

Lane* current_lane() { return current; }

Lane*& current_lane_of_thread() { return current; }

PEAL_SIMT_UNSEEN void set_current_lane(Lane* lane) { current = lane; }

PEAL_SIMT_UNSEEN void set_scheduler(Scheduler* scheduler) { current_scheduler = scheduler; }

Scheduler* scheduler_of_thread() { return current_scheduler; }

Scheduler* scheduler_of_lane() { return current == nullptr ? nullptr : current_scheduler; }

PEAL_SIMT_UNSEEN void progressed() { progress_made = true; }

PEAL_SIMT_UNSEEN bool take_progress() {
  const bool made = progress_made;
  progress_made = false;
  return made;
}

bool in_kernel() { return current != nullptr && !current->on_host; }

unsigned lane_id() { return current == nullptr ? 0 : current->index; }

unsigned warp_id() { return current == nullptr ? 0 : current->warp->index(); }

unsigned thread_rank() { return warp_id() * kWarpLanes + lane_id(); }

unsigned block_threads() { return static_cast<unsigned>(blockDim.count()); }

uint32_t warp_mask() { return current == nullptr ? 1 : current->warp->all(); }

void yield() {
  if (current == nullptr) {
    std::this_thread::yield();
    return;
  }
  suspend(*current, {.call = LaneCall::kYield});
}

void give_way(Lane& lane) {
  if (lane.abandoned) return;
  lane.request = {.call = LaneCall::kYield};
  leave(lane);
}

void leave_for_good(Lane& lane) {
  lane.request = {.call = LaneCall::kYield};
  for (;;) leave(lane);
}

PEAL_SIMT_UNSEEN void breathe() {
  if (current == nullptr) return;
  if (current_scheduler != nullptr) return current_scheduler->point();
  if (--calls_left != 0) return;
  calls_left = kCallsPerBreath;
  suspend(*current, {.call = LaneCall::kYield, .value = 1});
}

uint64_t now_ns() {
  if (scheduler_of_lane() != nullptr) return current_scheduler->now_ns();
  return monotonic_ns();
}

uint64_t running_ns() {
  if (scheduler_of_lane() != nullptr) return current_scheduler->now_ns();
  return peal::running_ns();
}

bool simulated_fence(FenceReach reach) {
  if (scheduler_of_lane() == nullptr) return false;
  current_scheduler->fence(reach);
  return true;
}

void sync_warp(uint32_t mask) {
  Lane* const lane = current;
  if (lane == nullptr) return;
  void* const tag = lane->warp->tag(mask);
  release_to(tag);
  meet(*lane, {.call = LaneCall::kSyncWarp, .mask = mask}, 0);
  acquire_from(tag);
}

uint64_t shuffle(uint32_t mask, uint64_t value, unsigned source_lane) {
  Lane* const lane = current;
  if (lane == nullptr) return value;
  return meet(*lane,
              {.call = LaneCall::kShuffle, .mask = mask, .source = source_lane, .value = value},
              source_lane == lane->index ? value : kUndefined);
}

uint32_t ballot(uint32_t mask, bool predicate) {
  Lane* const lane = current;
  if (lane == nullptr) return predicate;
  return static_cast<uint32_t>(meet(*lane,
                                    {.call = LaneCall::kBallot, .mask = mask, .value = predicate},
                                    predicate ? lane->bit() : 0));
}

uint32_t match_any(uint32_t mask, uint64_t value) {
  Lane* const lane = current;
  if (lane == nullptr) return 1;
  return static_cast<uint32_t>(
      meet(*lane, {.call = LaneCall::kMatchAny, .mask = mask, .value = value}, lane->bit()));
}

[[gnu::noinline]] uint32_t converged_mask() {
  return converged_mask_at(__builtin_return_address(0));
}

uint32_t converged_mask_at(const void* site) {
  Lane* const lane = current;
  if (lane == nullptr) return 1;
  return static_cast<uint32_t>(suspend(*lane, {.call = LaneCall::kConverged, .key = site}));
}

void sync_block() {
  Lane* const lane = current;
  if (lane == nullptr || block_threads() == 1) return;
  release_to(lane->block);
  suspend(*lane, {.call = LaneCall::kSyncBlock});
  acquire_from(lane->block);
}

void meet_block() {
  if (current == nullptr || block_threads() == 1) return;
  suspend(*current, {.call = LaneCall::kSyncBlock, .value = 1});
}

int sync_block_count(bool predicate) {
  Lane* const lane = current;
  if (lane == nullptr || block_threads() == 1) return predicate;
  release_to(lane->block);
  const uint64_t count = suspend(*lane, {.call = LaneCall::kCountBlock, .value = predicate});
  acquire_from(lane->block);
  return static_cast<int>(count);
}

namespace {

// How many blocks of the grid that runs here can be resident.
PEAL_SIMT_UNSEEN uint64_t most_resident_blocks() {
  return current_scheduler != nullptr ? current_scheduler->most_resident_blocks()
                                      : this_worker()->most_resident_blocks();
}

}  // namespace

bool all_blocks_fit() { return !in_kernel() || gridDim.count() <= most_resident_blocks(); }

void refuse_blocks(const char* call) {
  const uint64_t most = most_resident_blocks();
  throw LaneError(std::string(call) + " by a grid needs all of its " +
                  std::to_string(gridDim.count()) + " blocks of " +
                  std::to_string(block_threads()) + " threads at once, and only " +
                  std::to_string(most) +
                  " can be resident (Limits::max_lanes = " + std::to_string(limits().max_lanes) +
                  "): launch fewer, or raise the limit by SIMT_MAX_LANES or set_limits()");
}

void* block_shared(const void* key, size_t bytes, size_t align) {
  Lane* const lane = current;
  if (lane == nullptr) {
    thread_local SharedMemory own;
    return own.find(key, bytes, align);
  }
  // Lanes of a worker share its books, which ThreadSanitizer does not know.
  const bool at_once = !kThreadSanitized && lane->block->worker() != nullptr;
  if (at_once) return lane->block->shared().find(key, bytes, align);
  const uint64_t start = suspend(*lane, {.call = LaneCall::kShared,
                                         .source = static_cast<uint32_t>(align),
                                         .value = bytes,
                                         .key = key});
  acquire_from(lane->block->shared_tag());
  return reinterpret_cast<void*>(start);
}

void* dynamic_shared() { return current == nullptr ? nullptr : current->block->dynamic_shared(); }

}  // namespace peal::simt
