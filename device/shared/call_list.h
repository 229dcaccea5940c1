// SPDX-License-Identifier: Apache-2.0
//
// The calls of peal, of kernels and of a host, in one list; plain data. Who writes of calls or
// compares them takes this: the flight recorder, checked mode, usage errors, kernels on streams.
//
// A non-blocking form is the same call with CallNote::starts. What several calls have in common is
// a predicate, and those go by the order of the list. Names: call_names.h.
#pragma once

#include <cstdint>

#include "device/base/target.h"

namespace peal {

enum class Call : uint8_t {
  kNone,  // nobody knows which
  kPut,
  kPutSignal,
  kP,
  kGet,
  kG,
  kSignal,
  // Atomics: those that answer the old value, and those that do not.
  kAtomicFetch,
  kAtomicSwap,
  kAtomicCompareSwap,
  kAtomicFetchAdd,
  kAtomicFetchAnd,
  kAtomicFetchOr,
  kAtomicFetchXor,
  kAtomicFetchMin,
  kAtomicFetchMax,
  kAtomicSet,
  kAtomicAdd,
  kAtomicAnd,
  kAtomicOr,
  kAtomicXor,
  kAtomicMin,
  kAtomicMax,
  // Calls on words of this PE: those that wait, and those that look once.
  kWaitUntil,
  kWaitUntilAll,
  kWaitUntilAny,
  kWaitUntilSome,
  kSignalWaitUntil,
  kTest,
  kTestAll,
  kTestAny,
  kTestSome,
  kSignalFetch,
  // Calls on a ticket.
  kWait,
  kTestTicket,
  kFence,
  kQuiet,
  kSyncAll,
  kBarrierAll,
  // Calls of a team.
  kSync,
  kBarrier,
  kBroadcast,
  kAllGather,
  kAllToAll,
  kAllToAllV,
  kAllReduce,
  kReduce,
  kReduceScatter,
  kScan,
  kExclusiveScan,
  kCount,
};

/// Which of a call's ranges is meant.
enum class CallSide : uint8_t {
  kThere,  // at the PE that the call names, or dst of a collective call
  kHere,   // at home: the source of a put, where fetched values go, src of a collective call
  kWord,   // beside the two: the signal of a put_signal, the word of a wait, lists of counts
};

/// Moves memory to a PE.
PEAL_HD constexpr bool is_put(Call call) { return call == Call::kPut || call == Call::kPutSignal; }
PEAL_HD constexpr bool is_atomic(Call call) {
  return call >= Call::kAtomicFetch && call <= Call::kAtomicMax;
}
/// An atomic that answers the old value.
PEAL_HD constexpr bool fetches(Call call) {
  return call >= Call::kAtomicFetch && call <= Call::kAtomicFetchMax;
}
/// Writes a word of a PE by itself.
PEAL_HD constexpr bool writes_word(Call call) {
  return call == Call::kP || call == Call::kSignal || is_atomic(call);
}
/// Is about words of this PE that somebody else changes.
PEAL_HD constexpr bool is_of_words(Call call) {
  return call >= Call::kWaitUntil && call <= Call::kSignalFetch;
}
PEAL_HD constexpr bool is_of_ticket(Call call) {
  return call == Call::kWait || call == Call::kTestTicket;
}
/// Meets all PEs.
PEAL_HD constexpr bool is_of_all(Call call) {
  return call == Call::kSyncAll || call == Call::kBarrierAll;
}
PEAL_HD constexpr bool is_collective(Call call) {
  return call >= Call::kSync && call <= Call::kExclusiveScan;
}
PEAL_HD constexpr bool reduces(Call call) {
  return call >= Call::kAllReduce && call <= Call::kExclusiveScan;
}
PEAL_HD constexpr bool is_scan(Call call) {
  return call == Call::kScan || call == Call::kExclusiveScan;
}
PEAL_HD constexpr bool has_root(Call call) {
  return call == Call::kBroadcast || call == Call::kReduce;
}
/// Waits until what was posted is complete.
PEAL_HD constexpr bool drains(Call call) {
  return call == Call::kQuiet || call == Call::kBarrierAll || call == Call::kBarrier;
}
/// Waits for others or for the NIC, or looks whether they have done something.
PEAL_HD constexpr bool waits(Call call) {
  return call >= Call::kWaitUntil && call <= Call::kExclusiveScan;
}

}  // namespace peal
