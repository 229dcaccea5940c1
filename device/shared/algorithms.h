// SPDX-License-Identifier: Apache-2.0
//
// The algorithms of collective calls: which there are, what each needs, and which one a call takes.
// The one table of it: device/collective/run.h reads it, PEAL_ALGORITHM names its rows, and
// docs/collectives.md shows it. What rows do: host/base/algorithm_names.h.
//
//   a call goes by the first row of its name whose `needs` and `best` it meets; a forced one by the
//   row that is forced, whose `needs` it must meet
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>

#include "device/base/target.h"
#include "device/shared/call_list.h"

namespace peal::collective {

enum class Algorithm : uint8_t {
  kAny,
  // Where all members are mapped.
  kExchange,
  kFetch,
  kRelay,
  kSwap,
  kStore,
  kShares,
  // Where a NIC is between.
  kBruck,
  kScatter,
  kStage,
  kInDestination,
  kPut,
  kCount,
};

/// What a row asks of a call, a bit each.
enum Need : uint32_t {
  kMapped = 1u << 0,       // every member loads and stores the memory of every other
  kByNic = 1u << 1,        // or not
  kFromKernel = 1u << 2,   // the call is made in a kernel, not by the host
  kInPlace = 1u << 3,      // dst is src
  kApart = 1u << 4,        // or not
  kFitsRings = 1u << 5,    // the message to a member: two of them fit a ring of the workspace
  kWordsVouch = 1u << 6,   // a word by the NIC vouches for the data ahead of it
  kFitsSet = 1u << 7,      // what all members give fits a half of the workspace
  kRoom = 1u << 8,         // dst has room for the shares of all other members
  kOfTwo = 1u << 9,        // two members at most
  kOfSeveral = 1u << 10,   // two members at least
  kLongShares = 1u << 11,  // a share is longer than a piece of the workspace
  kLastNeed = kLongShares,
};

struct AlgorithmRow {
  uint32_t calls;  // bit_of() each
  Algorithm algorithm;
  uint32_t needs;
  uint32_t best;
};

/// That of no collective call is 0.
PEAL_HD constexpr uint32_t bit_of(Call call) {
  return is_collective(call)
             ? 1u << (static_cast<uint32_t>(call) - static_cast<uint32_t>(Call::kSync))
             : 0;
}

namespace rows {

inline constexpr uint32_t kBroadcast = bit_of(Call::kBroadcast);
inline constexpr uint32_t kAllGather = bit_of(Call::kAllGather);
inline constexpr uint32_t kAllToAll = bit_of(Call::kAllToAll);
inline constexpr uint32_t kAllToAllV = bit_of(Call::kAllToAllV);
inline constexpr uint32_t kReductions = bit_of(Call::kAllReduce) | bit_of(Call::kReduce) |
                                        bit_of(Call::kReduceScatter) | bit_of(Call::kScan) |
                                        bit_of(Call::kExclusiveScan);
inline constexpr uint32_t kShort = kBroadcast | kAllGather | kAllToAll | kReductions;

}  // namespace rows

/// The last row of each call and way is taken where no other is.
inline constexpr AlgorithmRow kAlgorithms[] = {
    {rows::kShort, Algorithm::kExchange, kMapped | kFitsRings, 0},
    {rows::kBroadcast, Algorithm::kFetch, kMapped, kOfTwo},
    {rows::kBroadcast, Algorithm::kRelay, kMapped, 0},
    {rows::kAllToAll, Algorithm::kSwap, kMapped | kInPlace, 0},
    {rows::kAllToAll, Algorithm::kStore, kMapped | kApart, 0},
    {rows::kAllGather | rows::kAllToAllV, Algorithm::kStore, kMapped, 0},
    {rows::kReductions, Algorithm::kShares, kMapped, 0},
    {rows::kShort, Algorithm::kBruck, kByNic | kWordsVouch | kFitsSet, kOfSeveral},
    {rows::kBroadcast, Algorithm::kScatter, kByNic, 0},
    {rows::kAllToAll, Algorithm::kStage, kByNic | kInPlace, 0},
    {rows::kAllToAll, Algorithm::kPut, kByNic | kApart, 0},
    {rows::kAllGather | rows::kAllToAllV, Algorithm::kPut, kByNic, 0},
    {bit_of(Call::kAllReduce), Algorithm::kInDestination, kByNic | kFromKernel | kApart | kRoom,
     kLongShares},
    {rows::kReductions, Algorithm::kStage, kByNic, 0},
};
inline constexpr size_t kAlgorithmRows = std::size(kAlgorithms);

/// True for the rows that need no meeting before and behind them.
PEAL_HD constexpr bool meets_by_itself(Algorithm algorithm) {
  return algorithm == Algorithm::kExchange || algorithm == Algorithm::kBruck;
}

/// The row of the call at or behind `from` that `way` (kMapped, kByNic) has, or kAlgorithmRows.
template <uint32_t kWay>
PEAL_HD constexpr size_t next_row(Call call, size_t from) {
  while (from < kAlgorithmRows &&
         ((kAlgorithms[from].calls & bit_of(call)) == 0 || (kAlgorithms[from].needs & kWay) == 0)) {
    ++from;
  }
  return from;
}

/// The row of an algorithm of the call, or kAlgorithmRows.
PEAL_HD constexpr size_t row_of(Call call, Algorithm algorithm) {
  size_t row = 0;
  while (row < kAlgorithmRows && ((kAlgorithms[row].calls & bit_of(call)) == 0 ||
                                  kAlgorithms[row].algorithm != algorithm)) {
    ++row;
  }
  return row;
}

/// An algorithm that a call must take (PEAL_ALGORITHM), as Team::apart carries it: 0 is none.
struct ForcedAlgorithm {
  Call call = Call::kNone;
  Algorithm algorithm = Algorithm::kAny;

  PEAL_HD static constexpr ForcedAlgorithm of(uint32_t apart) {
    return {static_cast<Call>(apart >> 8 & 0xff), static_cast<Algorithm>(apart >> 16 & 0xff)};
  }
  PEAL_HD constexpr uint32_t word() const {
    return static_cast<uint32_t>(call) << 8 | static_cast<uint32_t>(algorithm) << 16;
  }
  /// What is forced of this call.
  PEAL_HD constexpr Algorithm of_call(Call which) const {
    return which == call ? algorithm : Algorithm::kAny;
  }
  bool operator==(const ForcedAlgorithm&) const = default;
};

}  // namespace peal::collective
