// SPDX-License-Identifier: Apache-2.0
//
// What the kernels of the workloads have in common: values that tell who wrote them and when, and
// plain accesses to memory that a simulation models.
#pragma once

#include <cstdint>
#include <string>

#include "device/api.h"
#include "tests/sim/job.h"
#include "tests/sim/workload.h"

namespace peal::sim {

// Where in a PE's heap a workload has what it sends, what it gets, words that vouch for data, and
// words that answer those.
inline constexpr size_t kSource = 0;
inline constexpr size_t kTarget = 1024;
inline constexpr size_t kFlags = 2048;
inline constexpr size_t kAnswers = 2304;

/// No value of one writer and round is one of another.
inline uint64_t tagged(int pe, uint32_t lane, uint32_t round, uint32_t word = 0) {
  return (uint64_t{1} << 56) | (static_cast<uint64_t>(pe) << 48) | (uint64_t{lane} << 32) |
         (uint64_t{round} << 16) | word;
}

/// A kernel's plain store or load.
template <class T>
void write(T* at, std::type_identity_t<T> value) {
  store_payload(at, value);
}
template <class T>
T read(const T* at) {
  return load_payload(at);
}

/// Fills or checks `count` words of one writer and round.
inline void write_words(uint64_t* at, uint32_t count, int pe, uint32_t lane, uint32_t round) {
  for (uint32_t i = 0; i < count; ++i) write(at + i, tagged(pe, lane, round, i));
}
inline void check_words(const uint64_t* at, uint32_t count, int pe, uint32_t lane, uint32_t round) {
  for (uint32_t i = 0; i < count; ++i) {
    const uint64_t seen = read(at + i);
    if (seen == tagged(pe, lane, round, i)) continue;
    throw Failure("word " + std::to_string(i) + " from pe " + std::to_string(pe) + ", lane " +
                  std::to_string(lane) + ", round " + std::to_string(round) + " is of round " +
                  (seen == 0 ? "none" : std::to_string((seen >> 16) & 0xffff)));
  }
}

inline void must(Status status, const char* what) {
  if (status != Status::kOk) expect_ok(status, what);
}

/// Runs the simulation; afterwards no NIC may have anything to complain about.
inline void run_clean(simt::Simulation& sim, Job& job) {
  sim.run();
  const std::string complaints = job.complaints();
  if (!complaints.empty()) throw Failure("the NICs complain: " + complaints);
}

}  // namespace peal::sim
