// SPDX-License-Identifier: Apache-2.0
//
// Long requests of queue pairs as jobs of the board (copy_board.h), whose parts all warps copy:
// what one warp does for the queue pairs in its slots, and for others when it has nothing else to
// do.
#pragma once

#include <cstdint>

#include "softnic/gpu/batch.h"
#include "softnic/gpu/copy.cuh"
#include "softnic/gpu/copy_board.h"
#include "softnic/gpu/run.cuh"
#include "softnic/gpu/slot.cuh"

namespace peal::softnic::gpu {

/// All lanes enter every call together.
class Jobs {
 public:
  __device__ Jobs(CopyBoard& board, uint32_t lane, uint32_t worker)
      : board_(board), lane_(lane), worker_(worker) {}

  /// The job of the lane's request, whose block is `index`; or kNoJob.
  __device__ uint32_t of(const EngineSlot& s, uint64_t index) const {
    uint32_t job = kNoJob;
    for (uint32_t i = 0; i < s.moving; ++i) {
      if (s.moves[i].index == static_cast<uint16_t>(index)) job = s.moves[i].job;
    }
    return job;
  }

  __device__ bool is_done(uint32_t job) const { return job != kNoJob && board_.is_done(job); }

  /// Makes jobs of the requests of lanes `wanted`, the first of them if there is not room for all.
  __device__ void begin(EngineSlot& s, const Shot& shot, uint32_t wanted, uint64_t index) {
    const uint32_t moving = s.moving;
    const auto all = static_cast<uint32_t>(__popc(wanted));
    const uint32_t room = kMoves - moving;
    uint32_t word = worker_ % kBoardWords;
    uint64_t jobs = 0;
    if (lane_ == 0) {
      for (uint32_t i = 0; i < kBoardWords && jobs == 0; ++i) {
        word = (worker_ + i) % kBoardWords;
        jobs = board_.reserve(word, all < room ? all : room, moving == 0);
      }
    }
    word = __shfl_sync(kAll, word, 0);
    jobs = __shfl_sync(kAll, jobs, 0);
    const auto rank = static_cast<uint32_t>(__popc(wanted & bits_below(lane_)));
    const auto count = static_cast<uint32_t>(__popcll(jobs));
    if ((wanted >> lane_ & 1) != 0 && rank < count) {
      uint64_t mine = jobs;
      for (uint32_t i = 0; i < rank; ++i) mine &= mine - 1;
      const uint32_t job =
          64 * word + static_cast<uint32_t>(__ffsll(static_cast<long long>(mine))) - 1;
      board_.set(job, shot.to, shot.from,
                 shot.bytes - (shot.strict ? last_word(shot.to, shot.bytes) : 0));
      s.moves[moving + rank] = {static_cast<uint16_t>(index), static_cast<uint16_t>(job)};
    }
    __syncwarp();
    if (lane_ == 0 && count != 0) {
      board_.show(word, jobs);
      s.moving = moving + count;
    }
    __syncwarp();
  }

  /// The lanes' jobs are over, which were the slot's first ones.
  __device__ void end(EngineSlot& s, uint32_t job) {
    const uint32_t over = __ballot_sync(kAll, job != kNoJob);
    if (over == 0) return;
    if (job != kNoJob) board_.end(job);
    const auto count = static_cast<uint32_t>(__popc(over));
    const Move kept = lane_ + count < kMoves ? s.moves[lane_ + count] : Move{};
    __syncwarp();
    if (lane_ + count < kMoves) s.moves[lane_] = kept;
    if (lane_ == 0) s.moving -= count;
    __syncwarp();
  }

  /// A part of one of the slot's jobs; false where none is left to take.
  __device__ bool copy_own(const EngineSlot& s) {
    bool copied = false;
    for (uint32_t i = 0; i < s.moving && !copied; ++i) copied = copy_part(s.moves[i].job);
    return copied;
  }

  /// Ends the slot's jobs, done. Its requests begin anew where any go on.
  __device__ void drain(EngineSlot& s) {
    for (uint32_t i = 0; i < s.moving; ++i) {
      const uint32_t job = s.moves[i].job;
      while (copy_part(job)) {
      }
      if (lane_ == 0) {
        while (!board_.is_done(job)) {
        }
        board_.end(job);
      }
      __syncwarp();
    }
    if (lane_ == 0) s.moving = 0;
    __syncwarp();
  }

  /// What the lane is to say to help(): lane w knows of word w.
  __device__ uint64_t look() const { return lane_ < kBoardWords ? board_.open(lane_) : 0; }

  /// A part of one of the jobs that the lanes have seen; false where there was none. Workers begin
  /// at different ones.
  __device__ bool help(uint64_t open) {
    if (!__any_sync(kAll, open != 0)) return false;
    const uint32_t first = worker_ % kCopyJobs;
    for (uint32_t i = 0; i <= kBoardWords; ++i) {
      const uint32_t word = (first / 64 + i) % kBoardWords;
      uint64_t jobs = __shfl_sync(kAll, open, static_cast<int>(word));
      if (i == 0) jobs = jobs >> first % 64 << first % 64;
      if (jobs == 0) continue;
      return copy_part(64 * word + static_cast<uint32_t>(__ffsll(static_cast<long long>(jobs))) -
                       1);
    }
    return false;
  }

 private:
  /// A part of a job; false where none is left to take.
  __device__ __noinline__ bool copy_part(uint32_t job) {
    CopyPart part = {};
    bool taken = false;
    if (lane_ == 0) taken = board_.take(job, &part);
    if (!__any_sync(kAll, taken)) return false;
    copy_together(broadcast(part.to, 0), broadcast(part.from, 0), __shfl_sync(kAll, part.bytes, 0),
                  lane_);
    fence_direct_stores();
    __syncwarp();
    if (lane_ == 0) board_.finish(job);
    return true;
  }

  CopyBoard& board_;
  uint32_t lane_;
  uint32_t worker_;
};

}  // namespace peal::softnic::gpu
