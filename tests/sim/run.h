// SPDX-License-Identifier: Apache-2.0
//
// One run of one workload, and the names of edges.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "device/base/edge.h"
#include "tests/sim/workload.h"

namespace peal::sim {

struct Result {
  std::string failure;  ///< empty: it passed
  uint64_t slices = 0;
  uint64_t digest = 0;
};

/// Runs the workload under a seed, with one edge weakened or none (0).
Result run_once(const Workload& workload, uint64_t seed, unsigned weaken = 0);

/// Null when there is none.
const Workload* find_workload(const std::string& name);

/// An edge as documents and tables name it, and what is taken from it.
struct EdgeName {
  Edge edge;
  const char* name;
  const char* workload;  ///< the one that is about it and must fail
  const char* weakened;
};
std::span<const EdgeName> edges();
/// The number to weaken, 0 when there is no such edge.
unsigned edge_by_name(const std::string& name);

}  // namespace peal::sim
