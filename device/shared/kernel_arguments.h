// SPDX-License-Identifier: Apache-2.0
//
// What the library's own kernels take, and what they tell of a failure: plain data that the host
// fills in (host/stream).
//
// A kernel finds context and team by pointer and reads them when it runs. So a CUDA graph that has
// recorded a call stays right when windows are registered, PEs are masked or queues recovered, and
// ends by kBadTeam once the team was freed.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/context.h"
#include "device/shared/call_list.h"
#include "device/team.h"
#include "device/types.h"

namespace peal::kernels {

/// The type of the elements that a call reduces.
enum class DataType : uint32_t { i8, i16, i32, i64, u8, u16, u32, u64, f16, bf16, f32, f64 };
enum class Operation : uint32_t { sum, product, min, max, bit_and, bit_or, bit_xor };

/// The first call of a context that failed, in memory of kernels: not every GPU has atomics on the
/// host's. `status` is written last.
struct CallReport {
  uint32_t status;
  uint32_t claimed;
  Call call;
  Call other;  // of kTeamBusy: the call that was under way
  uint16_t unused;
  int32_t pe;     // that the call named, or the root; -1: none
  uint64_t team;  // Team::id, of collective calls
  uint64_t time_ns;
};

/// Who calls: a part of the arguments of every kernel.
struct Caller {
  ContextState* state;
  CallReport* report;
  Call call;
  int32_t pe;
};

struct TransferArguments {
  Caller caller;
  std::byte* dst;
  const std::byte* src;
  uint64_t bytes;
  Signal signal;  // of kPutSignal
};

/// One value of `bytes` bytes, or none.
struct Word {
  Caller caller;
  void* word;
  uint64_t value;
  uint64_t expected;  // of kAtomicCompareSwap
  uint64_t* result;   // where the host reaches it; null: nobody wants what the call answers
  uint32_t bytes;
  uint32_t is_signed;  // of kWaitUntil
  Compare compare;
  Signal::Kind kind;  // of kSignal
};

/// A call of a team on one context while it is under way: [ number of the launch: 24 bits | Call: 8
/// | blocks of its grid that have come: 16 | and that are not done: 16 ]. 0: none is. The number
/// tells the blocks of one launch from those of another; of a graph it is the same at each replay,
/// and the count of those that have come tells. A block that is being refused may add to that count
/// for a moment, also where no call is under way.
struct UnderWay {
  static constexpr uint64_t kCame = uint64_t{1} << 16;  // one block more

  static constexpr uint64_t of(uint32_t number, Call call) {
    return uint64_t{number} << 40 | static_cast<uint64_t>(call) << 32;
  }
  PEAL_HD static bool same(uint64_t a, uint64_t b) { return (a ^ b) >> 32 == 0; }
  PEAL_HD static Call call(uint64_t word) { return static_cast<Call>(word >> 32 & 0xff); }
  PEAL_HD static uint32_t came(uint64_t word) { return static_cast<uint32_t>(word) >> 16; }
  PEAL_HD static uint32_t not_done(uint64_t word) { return static_cast<uint32_t>(word) & 0xffff; }
};

struct Collective {
  Caller caller;
  uint64_t* under_way;  // the word of team and context; null: nobody looks
  uint64_t launch;      // UnderWay::of()
  const Team* team;
  uint64_t team_id;
  std::byte* dst;
  const std::byte* src;
  uint64_t count;    // elements
  uint64_t element;  // bytes
  DataType type;     // of calls that reduce
  Operation operation;
  // kAllToAllV alone, in elements, in memory of kernels; `received` symmetric.
  const int64_t* received_counts;
  const int64_t* received_at;
  const int64_t* sent_counts;
  const int64_t* sent_at;
};

}  // namespace peal::kernels
