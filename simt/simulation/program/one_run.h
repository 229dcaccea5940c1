// SPDX-License-Identifier: Apache-2.0
//
// One run of a simulated program in a process of its own, so that each begins with the program's
// variables as they were, and none takes the others with it when it crashes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "simt/simulation/simulated_program.h"

namespace peal::simt {

struct SimulatedRun {
  int argc;
  char** argv;
  int (*main)(int, char**);
  SimulatedOptions options;
};

/// What to run: a seed, and of its decisions all, or those named (decisions.h).
struct RunOrder {
  uint64_t seed;
  std::optional<std::vector<uint64_t>> kept;
  bool story = false;
};

struct RunResult {
  bool failed = false;
  std::string what;   // in one line, the same for the same failure of another run
  std::string where;  // what each agent did last
  std::string story;
  std::string output;  // the end of what the program printed
  uint64_t slices = 0;
  std::vector<uint64_t> decisions;  // that were not the default
};

RunResult run_once(const SimulatedRun& program, const RunOrder& order);

}  // namespace peal::simt
