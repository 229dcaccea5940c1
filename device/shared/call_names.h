// SPDX-License-Identifier: Apache-2.0
//
// The names of calls, as programs write them, for whatever is said of a call: the one table.
#pragma once

#include <cstddef>
#include <iterator>

#include "device/shared/call_list.h"

namespace peal {

struct CallName {
  Call call;
  const char* name;
};

inline constexpr CallName kCallNames[] = {
    {Call::kNone, "an operation"},
    {Call::kPut, "put"},
    {Call::kPutSignal, "put_signal"},
    {Call::kP, "p"},
    {Call::kGet, "get"},
    {Call::kG, "g"},
    {Call::kSignal, "signal"},
    {Call::kAtomicFetch, "atomic_fetch"},
    {Call::kAtomicSwap, "atomic_swap"},
    {Call::kAtomicCompareSwap, "atomic_compare_swap"},
    {Call::kAtomicFetchAdd, "atomic_fetch_add"},
    {Call::kAtomicFetchAnd, "atomic_fetch_and"},
    {Call::kAtomicFetchOr, "atomic_fetch_or"},
    {Call::kAtomicFetchXor, "atomic_fetch_xor"},
    {Call::kAtomicFetchMin, "atomic_fetch_min"},
    {Call::kAtomicFetchMax, "atomic_fetch_max"},
    {Call::kAtomicSet, "atomic_set"},
    {Call::kAtomicAdd, "atomic_add"},
    {Call::kAtomicAnd, "atomic_and"},
    {Call::kAtomicOr, "atomic_or"},
    {Call::kAtomicXor, "atomic_xor"},
    {Call::kAtomicMin, "atomic_min"},
    {Call::kAtomicMax, "atomic_max"},
    {Call::kWaitUntil, "wait_until"},
    {Call::kWaitUntilAll, "wait_until_all"},
    {Call::kWaitUntilAny, "wait_until_any"},
    {Call::kWaitUntilSome, "wait_until_some"},
    {Call::kSignalWaitUntil, "signal_wait_until"},
    {Call::kTest, "test"},
    {Call::kTestAll, "test_all"},
    {Call::kTestAny, "test_any"},
    {Call::kTestSome, "test_some"},
    {Call::kSignalFetch, "signal_fetch"},
    {Call::kWait, "wait"},
    {Call::kTestTicket, "test"},
    {Call::kFence, "fence"},
    {Call::kQuiet, "quiet"},
    {Call::kSyncAll, "sync_all"},
    {Call::kBarrierAll, "barrier_all"},
    {Call::kSync, "sync"},
    {Call::kBarrier, "barrier"},
    {Call::kBroadcast, "broadcast"},
    {Call::kAllGather, "all_gather"},
    {Call::kAllToAll, "all_to_all"},
    {Call::kAllToAllV, "all_to_all_v"},
    {Call::kAllReduce, "all_reduce"},
    {Call::kReduce, "reduce"},
    {Call::kReduceScatter, "reduce_scatter"},
    {Call::kScan, "scan"},
    {Call::kExclusiveScan, "exclusive_scan"},
};

/// True if the table has every call at its place.
constexpr bool names_all_calls() {
  for (size_t i = 0; i < std::size(kCallNames); ++i) {
    if (kCallNames[i].call != static_cast<Call>(i)) return false;
  }
  return std::size(kCallNames) == static_cast<size_t>(Call::kCount);
}
static_assert(names_all_calls());

/// "all_reduce"; "an operation" of what is no call.
constexpr const char* to_string(Call call) {
  return kCallNames[call < Call::kCount ? static_cast<size_t>(call) : 0].name;
}

}  // namespace peal
