// SPDX-License-Identifier: Apache-2.0
//
// Collective calls by one block, timed inside one kernel: all members leave a barrier, make a call
// many times, and the clock of member 0 says how long that took. Both sides print the same rows:
//
//   {"side": "peal", "op": "all_reduce", "bytes": 1024, "pes": 2, "us": 3.21, "errors": 0}
//
// `bytes` are those of a member's source of float; of all_to_all those for one member.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "device/base/launch.h"
#include "device/base/scope.h"
#include "device/base/spin.h"

namespace peal::perf {

enum class TimedCollective { kBroadcast, kGather, kAllToAll, kAllReduce };
inline constexpr const char* kCollectiveNames[] = {"broadcast", "all_gather", "all_to_all",
                                                   "all_reduce"};

/// What a row is of, and where.
struct CollectiveRow {
  TimedCollective call;
  size_t count;  // floats
  uint32_t rounds;
  float* dst;
  float* src;
};

/// `Api`: sync(), and call(row) with every lane of the block; both answer true on success.
template <class Api>
PEAL_KERNEL PEAL_MAX_THREADS(512)
    time_collective(Api api, CollectiveRow row, uint64_t* ns, uint32_t* failed) {
  bool good = api.sync();
  for (uint32_t i = 0; i < row.rounds; ++i) good = api.call(row) && good;  // clocks come up
  good = api.sync() && good;
  const uint64_t begin = now_ns();
  for (uint32_t i = 0; i < row.rounds; ++i) good = api.call(row) && good;
  const uint64_t end = now_ns();
  if (!block.leader()) return;
  *ns = end - begin;
  if (!good) *failed += 1;
}

/// Element `i` of a source: small, so that sums are exact.
inline float value_of(int pe, size_t i) { return static_cast<float>((i + 3 * pe) % 7); }

inline float expected(TimedCollective call, size_t count, int pe, int n, size_t i) {
  const auto block = static_cast<int>(i / count);
  switch (call) {
    case TimedCollective::kBroadcast:
      return value_of(0, i);
    case TimedCollective::kGather:
      return value_of(block, i % count);
    case TimedCollective::kAllToAll:
      return value_of(block, i % count + static_cast<size_t>(pe) * count);
    case TimedCollective::kAllReduce:
      break;
  }
  float sum = 0;
  for (int k = 0; k < n; ++k) sum += value_of(k, i);
  return sum;
}

/// `Side`: pe(), n_pes(), api(), barrier(), allocate(bytes) (symmetric), copies to and from.
template <class Side>
int print_rows(Side& side, const char* name) {
  constexpr size_t kLargest = size_t{64} << 20;
  const auto n = static_cast<size_t>(side.n_pes());
  auto* const dst = static_cast<float*>(side.allocate(kLargest * n));
  auto* const src = static_cast<float*>(side.allocate(kLargest * n));
  auto* const words = static_cast<uint64_t*>(side.allocate(2 * sizeof(uint64_t)));
  std::vector<float> values(kLargest * n / sizeof(float));
  for (size_t i = 0; i < values.size(); ++i) values[i] = value_of(side.pe(), i);
  side.copy_in(src, values.data(), values.size() * sizeof(float));
  int failed = 0;
  for (const auto call : {TimedCollective::kBroadcast, TimedCollective::kGather,
                          TimedCollective::kAllToAll, TimedCollective::kAllReduce}) {
    for (size_t bytes = 8; bytes <= kLargest; bytes *= bytes < kLargest / 4 ? 8 : 4) {
      const size_t count = bytes / sizeof(float);
      const auto rounds = static_cast<uint32_t>(std::clamp<size_t>((8u << 20) / bytes, 2, 200));
      const uint64_t zeros[2] = {};
      side.copy_in(words, zeros, sizeof(zeros));
      side.barrier();
      launch({.blocks = 1, .threads = 512}, time_collective<decltype(side.api())>, side.api(),
             CollectiveRow{call, count, rounds, dst, src}, words,
             reinterpret_cast<uint32_t*>(words + 1))
          .wait();
      side.barrier();
      uint64_t told[2];
      side.copy_out(told, words, sizeof(told));
      const bool blocks = call == TimedCollective::kGather || call == TimedCollective::kAllToAll;
      const size_t taken = blocks ? count * n : count;
      std::vector<float> result(taken);
      side.copy_out(result.data(), dst, taken * sizeof(float));
      int errors = static_cast<int>(told[1]);
      for (size_t i = 0; i < taken && errors == 0; ++i) {
        if (result[i] != expected(call, count, side.pe(), side.n_pes(), i)) errors = 1;
      }
      failed += errors;
      if (side.pe() != 0 && errors == 0) continue;
      std::printf(
          "{\"side\": \"%s\", \"op\": \"%s\", \"bytes\": %zu, \"pes\": %zu, \"us\": %.3f, "
          "\"errors\": %d}\n",
          name, kCollectiveNames[static_cast<int>(call)], bytes, n,
          static_cast<double>(told[0]) / rounds / 1e3, errors);
    }
  }
  return failed == 0 ? 0 : 1;
}

}  // namespace peal::perf
