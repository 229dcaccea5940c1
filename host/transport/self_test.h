// SPDX-License-Identifier: Apache-2.0
//
// A connected queue proves itself before kernels use it. The host posts on it as a kernel would,
// and looks at what came of it:
//
//   get 8 bytes, who it is | put 16 bytes {pattern, count} | fetch-add 1 to count
//   | get 16 bytes {pattern, count + 1}
//
// The first get reads a number that only the peer has (Rails::owner): addresses and queue numbers
// mean something in their network only, and a PE that is in another one finds somebody else there,
// or itself. Nothing is written before that is known. The cell, in the peer's heap, is one that no
// other queue under test has. A step at a time on all queues
// at once: a queue that fails says which step and why, nothing is flushed over its first error, and
// hundreds of queues take no longer than the slowest.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "device/transport/model.h"
#include "host/memory/backing.h"
#include "host/nic/queue_end.h"

namespace peal {

/// Work queue blocks that the test uses of each queue: where kernels begin.
inline constexpr uint64_t kSelfTestBlocks = 4;
/// Bytes of the peer's cell, a multiple of 8 and aligned to 8.
inline constexpr uint64_t kSelfTestCell = 16;

/// A queue to be tested: ready to send, nothing posted, not used by any kernel yet.
struct QueueUnderTest {
  uint32_t index;         // among its context's
  const Backing* memory;  // that of the queue
  SendQueue fields;       // the fixed ones
  nic::QueueEnd* end;
  uint64_t owner;     // the number of the peer; this PE's is `self`
  uint64_t self;      //
  uint64_t identity;  // where the peer has it, in the window of the keys
  uint64_t cell;      // likewise
  NicKey rkey;        // for payload
  NicKey word_rkey;
};

/// What became of one.
struct SelfTestResult {
  enum class Step : uint8_t { kIdentity, kPut, kAtomic, kGet, kDone };
  enum class Kind : uint8_t {
    kOk,
    kError,
    kSilence,
    kItself,
    kStranger,
    kWrongData,
    kNoTurn,
    kEnded
  };
  uint32_t index;  // as in QueueUnderTest
  uint32_t peer;
  Step step;  // that failed
  Kind kind;
  uint8_t syndrome;  // of kError
  uint8_t vendor_syndrome;
};

/// How far a result is from the cause of a failure; 0 is nearest. A queue pair that fails leaves
/// its other end without answers.
int distance_from_cause(const SelfTestResult& result);

/// The test of some queues at once. Never waits: whoever drives it looks again and may have several
/// under way. `tag` is part of the pattern: one that was not used before for these cells. Leaves
/// the rings with kSelfTestBlocks posted and completed, which the caller enters in their SendQueue;
/// no kernel's landing cell is touched.
class QueueTest {
 public:
  /// Posts the first step.
  QueueTest(std::vector<QueueUnderTest> queues, uint32_t tag);

  /// Looks at each completion once, and posts the next step where all have ended well. True when
  /// the test is over: the step in which a queue fails is the last.
  bool advance();
  /// What was not completed yet never will be, and why.
  void give_up(SelfTestResult::Kind why = SelfTestResult::Kind::kSilence);
  /// The tests that failed, the nearest to the cause first. Valid when the round is over.
  const std::vector<SelfTestResult>& failed() const { return failed_; }
  /// Nothing that was sent for the `i`-th queue can still land in its cell, or there is no such.
  bool settled(size_t i) const;

 private:
  void begin_step();
  bool end_step();

  std::vector<QueueUnderTest> queues_;
  uint32_t tag_;
  SelfTestResult::Step step_ = SelfTestResult::Step::kIdentity;
  std::vector<const QueueUnderTest*> waiting_;
  std::vector<SelfTestResult> failed_;
};

/// What to add where nothing came of a test in `waited`: that the NIC itself would have said later
/// that nobody answers; empty if it has had the time.
std::string untold(uint8_t ack_timeout, uint8_t retry_count, std::chrono::nanoseconds waited);

/// What failed, why probably, and what to do: one sentence or two, without the names of the PEs.
/// `cause` is why nobody could be reached, where a NIC has said it: then nothing is guessed.
std::string explain(const SelfTestResult& result, const std::string& cause = "");

}  // namespace peal
