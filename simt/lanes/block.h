// SPDX-License-Identifier: Apache-2.0
//
// A resident block as its worker sees it: lanes, the warps that group them, and who waits for what.
//
//   lane: Request --suspend()--> worker: Block::settle() --> lane is ready, or waits until wake()
//
// Invariant: only the block's worker touches these, between slices; so there are no locks. A lane
// touches its own Lane inside suspend() only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "simt/lanes/dim3.h"
#include "simt/lanes/fiber.h"
#include "simt/lanes/ready.h"
#include "simt/lanes/shared_memory.h"

namespace peal::simt {

class Block;
class Scheduler;
class Warp;

/// What a lane asks of its worker when it suspends. Up to kExit the lane does not wait for others.
enum class LaneCall : uint8_t {
  kYield,
  kShared,
  kExit,
  kConverged,
  kSyncWarp,
  kShuffle,
  kBallot,
  kMatchAny,
  kSyncBlock,
  kCountBlock,
};

struct LaneRequest {
  LaneCall call = LaneCall::kYield;
  uint32_t mask = 0;
  unsigned source = 0;        // kShuffle
  uint64_t value = 0;         // kShuffle, kMatchAny; predicate of kBallot, kCountBlock;
                              // kSyncBlock: 1 if it orders nothing
  const void* key = nullptr;  // kShared; site of kConverged
  size_t bytes = 0;           // kShared
  size_t align = 0;           // kShared
};

/// The C++ runtime's record of exceptions in flight, which it keeps for each thread and simt for
/// each lane: a lane may suspend inside a handler or a destructor. The layout is the Itanium C++
/// ABI's.
struct ExceptionState {
  void* caught = nullptr;
  unsigned uncaught = 0;
};

struct Lane {
  Fiber fiber;
  LaneRequest request;
  uint64_t result = 0;
  ExceptionState exceptions;
  Lane* next = nullptr;  // in Ready
  Block* block = nullptr;
  Warp* warp = nullptr;
  Dim3 thread{0, 0, 0};
  unsigned index = 0;  // in the warp
  uint64_t rank = 0;   // in the grid, or among all lanes of a simulation
  bool started = false;
  bool ended = false;
  bool abandoned = false;   // the launch stopped: unwind
  bool on_host = false;     // of a simulation's host: in no kernel
  unsigned in_library = 0;  // place.h
  bool observed = false;    // inside an observer of its accesses

  uint32_t bit() const { return uint32_t{1} << index; }
};

/// The collectives of up to 32 lanes.
class Warp {
 public:
  Warp(Block& block, unsigned index, Lane* lanes, unsigned width);

  unsigned index() const { return index_; }
  uint32_t all() const { return all_; }
  /// A word of this warp that stands for the lanes of `mask` to ThreadSanitizer.
  void* tag(uint32_t mask) const;

  /// Takes a lane's warp collective; completes it when the lane is the last. Throws Error on
  /// misuse.
  void arrive(Lane& lane);
  /// Takes a lane at converged_mask().
  void park(Lane& lane);
  /// Must follow every slice of a lane, after what the lane asked for was taken.
  void end_slice(Lane& lane);
  /// The lane is ready, or not.
  void set_running(const Lane& lane, bool running);
  /// Throws Error when another lane waits for this one.
  void exit(Lane& lane);
  /// One line for each group of lanes that wait for the same.
  std::string waits() const;

 private:
  void check(const Lane& lane, uint32_t mask) const;
  void complete(uint32_t mask, LaneCall call);
  uint64_t result_of(const Lane& lane, uint32_t mask) const;
  void release_parked();

  Block& block_;
  const unsigned index_;
  Lane* const lanes_;
  const uint32_t all_;
  uint32_t live_;           // not ended
  uint32_t running_;        // ready, in the schedule or in a slice
  uint32_t waiting_ = 0;    // in a warp collective
  uint32_t parked_ = 0;     // in converged_mask()
  uint32_t slice_due_ = 0;  // lanes the parked ones still wait for
};

/// A block: its lanes, barrier and shared memory.
class Block {
 public:
  Block(const Dim3& index, const Dim3& threads, size_t shared_bytes, Ready& ready,
        Scheduler* scheduler = nullptr);
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  const Dim3& index() const { return index_; }
  /// Its number in a grid of so many blocks, x fastest.
  uint64_t number(const Dim3& blocks) const {
    return (uint64_t{index_.z} * blocks.y + index_.y) * blocks.x + index_.x;
  }
  std::vector<Lane>& lanes() { return lanes_; }
  const std::vector<Lane>& lanes() const { return lanes_; }
  void* dynamic_shared() const { return dynamic_shared_; }
  /// A word that stands for the making of shared memory to ThreadSanitizer.
  void* shared_tag() { return &shared_; }
  /// Who runs its lanes; null: a worker.
  Scheduler* scheduler() const { return scheduler_; }

  /// Takes what `lane` asked for with its last slice. Throws Error when that is against the rules,
  /// or when no lane of the block can run any more.
  void settle(Lane& lane);
  /// Makes a waiting lane ready, with the result of what it waited for.
  void wake(Lane& lane, uint64_t result);
  /// Throws Error with `what`, said of this lane.
  [[noreturn]] static void fail(const Lane& lane, const std::string& what);

 private:
  void arrive(Lane& lane);
  void complete_barrier();
  void exit(Lane& lane);
  [[noreturn]] void fail_deadlock() const;

  const Dim3 index_;
  Ready& ready_;
  Scheduler* const scheduler_;
  std::vector<Lane> lanes_;
  std::vector<Warp> warps_;
  SharedMemory shared_;
  void* dynamic_shared_ = nullptr;
  unsigned live_;
  unsigned running_;
  unsigned at_barrier_ = 0;
  unsigned predicates_ = 0;                  // of the lanes at the barrier
  LaneCall barrier_ = LaneCall::kSyncBlock;  // what they called
};

/// CUDA's name of a call, for messages.
const char* to_string(LaneCall call);
/// "0x0000ffff"
std::string hex(uint32_t mask);
/// "(0,1,2)", of an index.
std::string to_string(const Dim3& index);

}  // namespace peal::simt
