// SPDX-License-Identifier: Apache-2.0
//
// What can be measured: a call, how it is repeated, by whom, how often. The programs and the
// comparison make their cases of these words.
#pragma once

#include <cstddef>
#include <cstdint>

namespace peal::perf {

enum class Op {
  kPut,
  kGet,
  kP,
  kG,
  kAdd,       // each agent to a word of its own
  kAddSame,   // all to one word
  kFetchAdd,  //
  kPutSignal,
  kWord,  // a single word that is message and signal at once: the floor of put_signal
  kCopy,  // no call: the scope's leader copies into the peer's mapped memory by memcpy
  kBarrier,
  kAllReduce,
  kAllGather,
  kBroadcast,
  kAllToAll,
};

enum class CallWay {
  kStream,    // all agents, one call after another, quiet at the end
  kCall,      // one agent, each call completed: by quiet, or by its answer
  kBounce,    // one agent each on two PEs: one sends, the other answers
  kTogether,  // all PEs make the call
};

/// Who makes a call: lanes of a kernel, or the host, on a stream or at once.
enum class ScopeKind { kThread, kWarp, kBlock, kStream, kHost };
inline constexpr const char* kScopeNames[] = {"thread", "warp", "block", "stream", "host"};
inline const char* to_string(ScopeKind scope) { return kScopeNames[static_cast<size_t>(scope)]; }

/// A call and its repetition under the name that the command line and the rows have for it.
struct Measure {
  const char* name;
  Op op;
  CallWay way;
};

/// What the comparison measures.
inline constexpr Measure kCompared[] = {{"put", Op::kPut, CallWay::kStream},
                                        {"get", Op::kGet, CallWay::kStream},
                                        {"put_quiet", Op::kPut, CallWay::kCall},
                                        {"p_quiet", Op::kP, CallWay::kCall},
                                        {"inc_quiet", Op::kAdd, CallWay::kCall},
                                        {"fetch_add", Op::kFetchAdd, CallWay::kCall},
                                        {"put_signal", Op::kPutSignal, CallWay::kBounce},
                                        {"ping_pong", Op::kWord, CallWay::kBounce},
                                        {"add", Op::kAdd, CallWay::kStream},
                                        {"add_same", Op::kAddSame, CallWay::kStream},
                                        {"barrier_all", Op::kBarrier, CallWay::kTogether}};

struct Case {
  Measure what;
  ScopeKind scope;
  uint32_t blocks;
  uint32_t threads;        // of a block
  uint64_t bytes;          // of a message
  uint64_t iterations;     // of each agent in one launch
  bool both_ways = false;  // both PEs of a pair make calls, at the same time

  /// How many scopes work at once: all threads, all warps or all blocks of the grid.
  uint64_t agents() const {
    const uint64_t warps = (uint64_t{threads} + 31) / 32;
    const uint64_t in_block = scope == ScopeKind::kThread ? threads : warps;
    return blocks * (scope == ScopeKind::kBlock ? 1 : in_block);
  }
  bool streams() const { return what.way == CallWay::kStream; }
  bool bounces() const { return what.way == CallWay::kBounce; }
  bool fetches() const { return what.op == Op::kGet || what.op == Op::kG; }
  bool adds() const {
    return what.op == Op::kAdd || what.op == Op::kAddSame || what.op == Op::kFetchAdd;
  }
  bool moves_data() const { return !adds() && what.op != Op::kWord && what.op != Op::kBarrier; }

  /// Words that the target's PE needs: signals, and what atomics add to.
  uint64_t words(int pes) const {
    if (what.op == Op::kBarrier) return static_cast<uint64_t>(pes);
    if (streams() && (what.op == Op::kAdd || what.op == Op::kPutSignal)) return agents();
    return adds() || (bounces() && what.op != Op::kP) ? 1 : 0;
  }
};

}  // namespace peal::perf
