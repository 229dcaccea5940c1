// SPDX-License-Identifier: Apache-2.0
//
// A resident block as its worker sees it: lanes, the warps that group them, and who waits for what.
//
//   lane: Request --suspend()--> LaneBlock::take_request() --> lane is ready, or waits until wake()
//
// Invariant: only the thread of the block's worker touches these, between slices; so there are no
// locks. A lane touches its own Lane inside suspend() only.
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

class LaneBlock;
class Scheduler;
class LaneWarp;
class Worker;

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
  uint32_t source = 0;        // kShuffle; alignment of kShared
  uint64_t value = 0;         // kShuffle, kMatchAny; predicate of kBallot, kCountBlock;
                              // kSyncBlock: 1 if it orders nothing; bytes of kShared;
                              // kYield: 1 of a lane that may not wait
  const void* key = nullptr;  // kShared; site of kConverged
};

/// The C++ runtime's record of exceptions in flight, which it keeps for each thread and simt for
/// each lane: a lane may suspend inside a handler or a destructor. The layout is the Itanium C++
/// ABI's.
struct ExceptionState {
  void* caught = nullptr;
  unsigned uncaught = 0;
};

struct alignas(64) Lane {
  // All that a lane which never waits has to do with lies in one line of the cache.
  Fiber* fiber = nullptr;  // that it runs or waits on, once it has begun and until it ends
  LaneBlock* block = nullptr;
  LaneWarp* warp = nullptr;
  Dim3 thread{0, 0, 0};
  unsigned index = 0;  // in the warp
  bool started = false;
  bool ended = false;
  bool abandoned = false;   // the launch stopped: unwind
  bool observed = false;    // inside an observer of its accesses
  unsigned in_library = 0;  // place.h
  bool on_host = false;     // of a simulation's host: in no kernel
  uint64_t result = 0;
  LaneRequest request;
  Lane* next = nullptr;  // in Ready
  ExceptionState exceptions;
  uint64_t rank = 0;  // among all lanes of a simulation

  uint32_t bit() const { return uint32_t{1} << index; }
};

/// The collectives of up to 32 lanes.
class LaneWarp {
 public:
  LaneWarp(LaneBlock& block, unsigned index, Lane* lanes, unsigned width);

  /// All lanes are to begin again.
  void begin();

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
  /// Those lanes have ended, and none of this warp waits.
  void end(uint32_t lanes) {
    live_ &= ~lanes;
    running_ &= ~lanes;
  }
  /// One line for each group of lanes that wait for the same.
  std::string waits() const;

 private:
  bool joins(const Lane& lane, uint32_t mask) const;
  void check(const Lane& lane, uint32_t mask) const;
  void complete(uint32_t mask, LaneCall call);
  uint64_t result_of(const Lane& lane, uint32_t mask) const;
  void release_parked();

  LaneBlock& block_;
  const unsigned index_;
  Lane* const lanes_;
  const uint32_t all_;
  uint32_t live_ = 0;     // not ended
  uint32_t running_ = 0;  // not begun, ready, in the schedule or in a slice
  uint32_t waiting_ = 0;  // in a warp collective
  uint32_t meeting_ = 0;  // the mask that one of them came with
  LaneCall meeting_call_ = LaneCall::kSyncWarp;
  uint32_t met_ = 0;        // of these, who came for that
  uint32_t parked_ = 0;     // in converged_mask()
  uint32_t slice_due_ = 0;  // lanes the parked ones still wait for
};

/// A block in the list of those that a debugger is shown.
struct ResidentBlock {
  const Lane* lanes = nullptr;
  uint64_t number = 0;  // in the grid
  ResidentBlock* next = nullptr;
  ResidentBlock* before = nullptr;
};

/// Blocks that have begun and not ended, of one worker or simulated process.
struct ResidentBlocks {
  ResidentBlock* first = nullptr;

  void add(ResidentBlock& block);
  void remove(ResidentBlock& block);
};

/// A block: its lanes, barrier and shared memory. One object serves one block after another.
class LaneBlock {
 public:
  /// Its lanes are run by `worker`, or by `scheduler` where that is null.
  LaneBlock(const Dim3& threads, size_t shared_bytes, Ready& ready, Worker* worker,
            Scheduler* scheduler = nullptr);
  LaneBlock(const LaneBlock&) = delete;
  LaneBlock& operator=(const LaneBlock&) = delete;

  /// From now on it is block `number` of so many: none of its lanes has begun.
  void begin(const Dim3& blocks, uint64_t number);

  const Dim3& index() const { return index_; }
  /// In its grid, x fastest.
  uint64_t number() const { return resident_.number; }
  std::vector<Lane>& lanes() { return lanes_; }
  const std::vector<Lane>& lanes() const { return lanes_; }
  /// Lanes that have not ended.
  unsigned live() const { return live_; }
  SharedMemory& shared() { return shared_; }
  void* dynamic_shared() const { return dynamic_shared_; }
  /// Words that stand for the making of shared memory, for "lanes may start" and for "lanes ended"
  /// to ThreadSanitizer.
  void* shared_tag() { return &shared_; }
  void* start_tag() { return &start_tag_; }
  void* end_tag() { return &end_tag_; }
  Worker* worker() const { return worker_; }
  Scheduler* scheduler() const { return scheduler_; }
  ResidentBlock& resident() { return resident_; }

  /// Takes what `lane` asked for with its last slice. Throws Error when that is against the rules,
  /// or when no lane of the block can run any more.
  void take_request(Lane& lane);
  /// As take_request(), of `count` lanes from number `first` on that have ended.
  void end(size_t first, size_t count);
  /// Makes a waiting lane ready, with the result of what it waited for.
  void wake(Lane& lane, uint64_t result);
  /// Throws Error with `what`, said of this lane.
  [[noreturn]] static void fail(const Lane& lane, const std::string& what);

 private:
  void arrive(Lane& lane);
  void complete_barrier();
  void exit(Lane& lane);
  [[noreturn]] void fail_deadlock() const;

  Dim3 index_{0, 0, 0};
  Ready& ready_;
  Worker* const worker_;
  Scheduler* const scheduler_;
  std::vector<Lane> lanes_;
  std::vector<LaneWarp> warps_;
  SharedMemory shared_;
  void* dynamic_shared_ = nullptr;
  const size_t shared_bytes_;
  ResidentBlock resident_;
  unsigned live_ = 0;
  unsigned running_ = 0;
  unsigned at_barrier_ = 0;
  unsigned predicates_ = 0;                  // of the lanes at the barrier
  LaneCall barrier_ = LaneCall::kSyncBlock;  // what they called
  // To ThreadSanitizer what lies in one word of 8 bytes is one.
  uint64_t start_tag_ = 0;
  uint64_t end_tag_ = 0;
};

/// CUDA's name of a call, for messages.
const char* to_string(LaneCall call);
/// "0x0000ffff"
std::string hex(uint32_t mask);
/// "(0,1,2)", of an index.
std::string to_string(const Dim3& index);

/// The index of block `number`, x fastest.
Dim3 block_index(const Dim3& blocks, uint64_t number);

}  // namespace peal::simt
