// SPDX-License-Identifier: Apache-2.0
//
// What a lane asked for, sorted out; the block barrier; deadlock.
#include "simt/lanes/block.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <mutex>

#include "base/immortal.h"
#include "simt/lanes/lane.h"
#include "simt/lanes/launch.h"
#include "simt/lanes/sanitizer.h"
#include "simt/lanes/scheduler.h"
#include "simt/lanes/suspend.h"
#include "simt/lanes/symbol.h"

namespace peal::simt {

const char* to_string(LaneCall call) {
  static constexpr const char* kNames[] = {
      "yield",         "block_shared",       "exit",          "__activemask",
      "__syncwarp",    "__shfl_sync",        "__ballot_sync", "__match_any_sync",
      "__syncthreads", "__syncthreads_count"};
  return kNames[static_cast<size_t>(call)];
}

std::string hex(uint32_t mask) {
  std::array<char, 16> text{};
  std::snprintf(text.data(), text.size(), "0x%08x", mask);
  return text.data();
}

std::string to_string(const Dim3& index) {
  return "(" + std::to_string(index.x) + "," + std::to_string(index.y) + "," +
         std::to_string(index.z) + ")";
}

#if defined(__SANITIZE_THREAD__)
namespace {

// " of ring", or nothing. Each kernel's is looked up once, and by one thread at a time: what
// libbacktrace does ThreadSanitizer cannot follow.
std::string of_kernel() {
  static std::mutex mutex;
  static Immortal<std::map<const void*, std::string>> names;
  if (kernel() == nullptr) return {};
  const std::lock_guard lock(mutex);
  const auto [place, is_new] = (*names).try_emplace(kernel());
  if (is_new) place->second = function_at(reinterpret_cast<uintptr_t>(kernel()));
  return place->second.empty() ? "" : " of " + place->second;
}

}  // namespace
#endif

void name_fiber([[maybe_unused]] const Stack& stack, [[maybe_unused]] const Lane& lane) {
#if defined(__SANITIZE_THREAD__)
  const std::string name =
      "block " + to_string(lane.block->index()) + " thread " + to_string(lane.thread) + of_kernel();
  __tsan_set_fiber_name(stack.tsan_fiber, name.c_str());
#endif
}

void Ready::push(Lane& lane) {
  ++count_;
  if (bag_ != nullptr) {
    bag_->push_back(&lane);
    return;
  }
  lane.next = nullptr;
  (first_ == nullptr ? first_ : last_->next) = &lane;
  last_ = &lane;
}

Lane& Ready::pop() {
  Lane& lane = *first_;
  first_ = lane.next;
  --count_;
  return lane;
}

Dim3 block_index(const Dim3& blocks, uint64_t number) {
  const uint64_t row = number / blocks.x;
  return {static_cast<unsigned>(number % blocks.x), static_cast<unsigned>(row % blocks.y),
          static_cast<unsigned>(row / blocks.y)};
}

void ResidentBlocks::add(ResidentBlock& block) {
  block.before = nullptr;
  block.next = first;
  if (first != nullptr) first->before = &block;
  first = &block;
}

void ResidentBlocks::remove(ResidentBlock& block) {
  if (block.next != nullptr) block.next->before = block.before;
  (block.before == nullptr ? first : block.before->next) = block.next;
}

LaneBlock::LaneBlock(const Dim3& threads, size_t shared_bytes, Ready& ready, Worker* worker,
                     Scheduler* scheduler)
    : ready_(ready),
      worker_(worker),
      scheduler_(scheduler),
      lanes_(threads.count()),
      shared_bytes_(shared_bytes) {
  const auto count = static_cast<unsigned>(lanes_.size());
  const unsigned warp_count = (count + kWarpLanes - 1) / kWarpLanes;
  warps_.reserve(warp_count);
  for (unsigned w = 0; w < warp_count; ++w) {
    warps_.emplace_back(*this, w, &lanes_[w * kWarpLanes],
                        std::min(kWarpLanes, count - w * kWarpLanes));
  }
  for (unsigned rank = 0; rank < count; ++rank) {
    Lane& lane = lanes_[rank];
    lane.block = this;
    lane.warp = &warps_[rank / kWarpLanes];
    lane.index = rank % kWarpLanes;
    lane.thread = {rank % threads.x, rank / threads.x % threads.y, rank / threads.x / threads.y};
  }
  resident_.lanes = lanes_.data();
}

void LaneBlock::begin(const Dim3& blocks, uint64_t number) {
  index_ = block_index(blocks, number);
  resident_.number = number;
  live_ = running_ = static_cast<unsigned>(lanes_.size());
  at_barrier_ = predicates_ = 0;
  for (LaneWarp& warp : warps_) warp.begin();
  for (Lane& lane : lanes_) {
    lane.started = lane.ended = lane.abandoned = lane.observed = false;
    lane.in_library = 0;
  }
  shared_.renew();
  if (shared_bytes_ != 0) dynamic_shared_ = shared_.find(this, shared_bytes_, 128);
}

void LaneBlock::take_request(Lane& lane) {
  const LaneCall call = lane.request.call;
  if (call <= LaneCall::kShared) {
    if (call == LaneCall::kShared) {
      const LaneRequest& asked = lane.request;
      lane.result = reinterpret_cast<uintptr_t>(shared_.find(asked.key, asked.value, asked.source));
      release_to(&shared_);  // to ThreadSanitizer, this worker wrote the storage when it made it
    }
    ready_.push(lane);
    lane.warp->end_slice(lane);
    return;
  }
  lane.warp->set_running(lane, false);
  --running_;
  if (call == LaneCall::kExit) {
    exit(lane);
  } else if (call == LaneCall::kConverged) {
    lane.warp->park(lane);
  } else if (call >= LaneCall::kSyncBlock) {
    arrive(lane);
  } else {
    lane.warp->arrive(lane);
  }
  lane.warp->end_slice(lane);
  if (running_ == 0 && live_ != 0) fail_deadlock();
}

void LaneBlock::end(size_t first, size_t count) {
  if (running_ != live_) {  // who waits may have waited for these
    for (size_t at = first; at < first + count; ++at) {
      lanes_[at].request.call = LaneCall::kExit;
      take_request(lanes_[at]);
    }
    return;
  }
  live_ -= static_cast<unsigned>(count);
  running_ = live_;
  for (size_t at = first, end = first + count; at < end;) {
    const size_t in_warp = std::min<size_t>(kWarpLanes - at % kWarpLanes, end - at);
    const uint32_t some = ~uint32_t{0} >> (kWarpLanes - in_warp);
    warps_[at / kWarpLanes].end(some << at % kWarpLanes);
    at += in_warp;
  }
}

void LaneBlock::wake(Lane& lane, uint64_t result) {
  lane.result = result;
  lane.warp->set_running(lane, true);
  ++running_;
  ready_.push(lane);
}

void LaneBlock::arrive(Lane& lane) {
  if (at_barrier_ != 0 && barrier_ != lane.request.call) {
    fail(lane, std::string(to_string(lane.request.call)) +
                   ", but other lanes of the block wait in " + to_string(barrier_));
  }
  barrier_ = lane.request.call;
  ++at_barrier_;
  predicates_ += lane.request.value != 0;
  if (at_barrier_ == live_) complete_barrier();
}

void LaneBlock::complete_barrier() {
  const unsigned count = predicates_;
  at_barrier_ = 0;
  predicates_ = 0;
  const bool orders = barrier_ != LaneCall::kSyncBlock || count == 0;  // else it was meet_block()
  if (scheduler_ != nullptr && orders) {
    std::vector<uint64_t> met;
    for (const Lane& lane : lanes_) {
      if (!lane.ended) met.push_back(lane.rank);
    }
    scheduler_->meet(met);
  }
  // Every lane that has not ended is at the barrier.
  for (Lane& lane : lanes_) {
    if (!lane.ended) wake(lane, count);
  }
}

void LaneBlock::exit(Lane& lane) {
  --live_;
  lane.ended = true;
  lane.warp->exit(lane);
  if (at_barrier_ != 0 && at_barrier_ == live_) complete_barrier();
}

void LaneBlock::fail(const Lane& lane, const std::string& what) {
  throw LaneError("block " + to_string(lane.block->index()) + ", warp " +
                  std::to_string(lane.warp->index()) + ", lane " + std::to_string(lane.index) +
                  ": " + what);
}

void LaneBlock::fail_deadlock() const {
  std::string what = "deadlock: no lane of block " + to_string(index_) + " can run";
  for (const LaneWarp& warp : warps_) what += warp.waits();
  throw LaneError(what);
}

}  // namespace peal::simt
