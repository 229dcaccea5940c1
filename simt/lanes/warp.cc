// SPDX-License-Identifier: Apache-2.0
//
// Warp collectives. A lane waits in `waiting_` with its request; the last lane of a mask to arrive
// computes every result and wakes all.
#include <bit>
#include <string>
#include <vector>

#include "simt/lanes/block.h"
#include "simt/lanes/lane.h"
#include "simt/lanes/scheduler.h"

namespace peal::simt {
namespace {

unsigned take_lowest(uint32_t& mask) {
  const auto index = static_cast<unsigned>(std::countr_zero(mask));
  mask &= mask - 1;
  return index;
}

std::string call_with_mask(const LaneRequest& request) {
  return std::string(to_string(request.call)) + " with mask " + hex(request.mask);
}

}  // namespace

LaneWarp::LaneWarp(LaneBlock& block, unsigned index, Lane* lanes, unsigned width)
    : block_(block), index_(index), lanes_(lanes), all_(~uint32_t{0} >> (kWarpLanes - width)) {}

void LaneWarp::begin() {
  live_ = running_ = all_;
  waiting_ = met_ = parked_ = slice_due_ = 0;
}

void* LaneWarp::tag(uint32_t mask) const {
  // Disjoint masks differ in their lowest lane.
  return &lanes_[(mask & all_) == 0 ? 0 : std::countr_zero(mask & all_)];
}

void LaneWarp::set_running(const Lane& lane, bool running) {
  running_ = running ? running_ | lane.bit() : running_ & ~lane.bit();
}

void LaneWarp::check(const Lane& lane, uint32_t mask) const {
  const auto fail = [&lane](const std::string& what) {
    LaneBlock::fail(lane, call_with_mask(lane.request) + what);
  };
  if ((mask & lane.bit()) == 0) fail(", which does not name the caller");
  if (uint32_t ended = mask & ~live_; ended != 0) {
    fail(" names lane " + std::to_string(take_lowest(ended)) + ", which has ended");
  }
  for (uint32_t others = mask & waiting_; others != 0;) {
    const unsigned index = take_lowest(others);
    const LaneRequest& other = lanes_[index].request;
    // A lane still busy in a collective without the caller may come here later.
    if ((other.mask & lane.bit()) == 0) continue;
    if ((other.mask & all_) == mask && other.call == lane.request.call) continue;
    fail(", but lane " + std::to_string(index) + " waits in " + call_with_mask(other));
  }
}

// The others of its mask that wait have come for the same as this lane: there is nothing to check.
bool LaneWarp::joins(const Lane& lane, uint32_t mask) const {
  return met_ != 0 && mask == meeting_ && (waiting_ & mask) == met_ &&
         lane.request.call == meeting_call_ && (mask & lane.bit()) != 0;
}

void LaneWarp::arrive(Lane& lane) {
  const uint32_t mask = lane.request.mask & all_;
  if (joins(lane, mask)) {
    waiting_ |= lane.bit();
    met_ |= lane.bit();
    if (met_ == mask) complete(mask, lane.request.call);
    return;
  }
  check(lane, mask);
  if ((waiting_ & mask) == 0) {
    meeting_ = mask;
    meeting_call_ = lane.request.call;
    met_ = lane.bit();
  }
  waiting_ |= lane.bit();
  if ((mask & ~waiting_) != 0) return;
  for (uint32_t others = mask; others != 0;) {
    if ((lanes_[take_lowest(others)].request.mask & all_) != mask) return;
  }
  complete(mask, lane.request.call);
}

void LaneWarp::complete(uint32_t mask, LaneCall call) {
  waiting_ &= ~mask;
  met_ &= ~mask;
  if (call == LaneCall::kSyncWarp && block_.scheduler() != nullptr) {
    std::vector<uint64_t> met;
    for (uint32_t others = mask; others != 0;) met.push_back(lanes_[take_lowest(others)].rank);
    block_.scheduler()->meet(met);
  }
  uint64_t ballot = 0;
  if (call == LaneCall::kBallot) {
    for (uint32_t others = mask; others != 0;) {
      const Lane& other = lanes_[take_lowest(others)];
      if (other.request.value != 0) ballot |= other.bit();
    }
  }
  // wake() leaves requests as they are, so later results still see them.
  for (uint32_t others = mask; others != 0;) {
    Lane& other = lanes_[take_lowest(others)];
    block_.wake(other, call == LaneCall::kBallot ? ballot : result_of(other, mask));
  }
}

uint64_t LaneWarp::result_of(const Lane& lane, uint32_t mask) const {
  const LaneRequest& request = lane.request;
  if (request.call == LaneCall::kShuffle) {
    const bool named = request.source < kWarpLanes && (mask >> request.source & 1) != 0;
    return named ? lanes_[request.source].request.value : kUndefined;
  }
  uint64_t same = 0;
  if (request.call == LaneCall::kMatchAny) {
    for (uint32_t others = mask; others != 0;) {
      const Lane& other = lanes_[take_lowest(others)];
      if (other.request.value == request.value) same |= other.bit();
    }
  }
  return same;
}

void LaneWarp::park(Lane& lane) {
  if (parked_ == 0) slice_due_ = running_ & ~lane.bit();
  parked_ |= lane.bit();
}

void LaneWarp::end_slice(Lane& lane) {
  slice_due_ &= ~lane.bit();
  if (parked_ != 0 && slice_due_ == 0) release_parked();
}

void LaneWarp::release_parked() {
  while (parked_ != 0) {
    const void* const site = lanes_[std::countr_zero(parked_)].request.key;
    uint32_t together = 0;
    for (uint32_t others = parked_; others != 0;) {
      const Lane& other = lanes_[take_lowest(others)];
      if (other.request.key == site) together |= other.bit();
    }
    parked_ &= ~together;
    for (uint32_t others = together; others != 0;) {
      block_.wake(lanes_[take_lowest(others)], together);
    }
  }
}

void LaneWarp::exit(Lane& lane) {
  live_ &= ~lane.bit();
  for (uint32_t others = waiting_; others != 0;) {
    const Lane& other = lanes_[take_lowest(others)];
    if ((other.request.mask & lane.bit()) == 0) continue;
    LaneBlock::fail(other, call_with_mask(other.request) + " waits for lane " +
                               std::to_string(lane.index) + ", which has ended");
  }
}

std::string LaneWarp::waits() const {
  std::string lines;
  for (uint32_t left = live_ & ~running_; left != 0;) {
    const LaneRequest& request = lanes_[std::countr_zero(left)].request;
    uint32_t same = 0;
    for (uint32_t others = left; others != 0;) {
      const Lane& other = lanes_[take_lowest(others)];
      if (other.request.call == request.call && other.request.mask == request.mask) {
        same |= other.bit();
      }
    }
    left &= ~same;
    lines += "\n  warp " + std::to_string(index_) + " lanes " + hex(same) + " wait in " +
             (request.mask == 0 ? to_string(request.call) : call_with_mask(request));
  }
  if (const uint32_t ended = all_ & ~live_; ended != 0) {
    lines += "\n  warp " + std::to_string(index_) + " lanes " + hex(ended) + " have ended";
  }
  return lines;
}

}  // namespace peal::simt
