// SPDX-License-Identifier: Apache-2.0
//
// A whole program in simulations: its main() is the host of each PE, its kernels are lanes, all in
// one thread of a process of their own for each seed (docs/simulation.md). peal-cc --sim makes such
// a program, whose main() calls run_simulated().
//
//   PEAL_SIM="--pes 2 --seeds 1000" ./program          peal-sim sets it
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace peal::simt {

/// What PEAL_SIM says.
struct SimulatedOptions {
  int pes = 2;
  uint64_t first_seed = 1;
  uint64_t seeds = 200;
  bool replay = false;     ///< one seed, with its story
  uint64_t shrinks = 400;  ///< runs to find the shortest schedule that fails
  uint64_t slices = 4'000'000;
  size_t steps = 60;  ///< of a story, from its end
};

/// Throws Error with the option, its value and what is wanted.
SimulatedOptions read_simulated_options(std::string_view text);

/// Runs `program` under one seed after another until one fails, and returns the exit status: 0 when
/// none did, 1 when one did, 2 for wrong options. It has failed when main() of a PE returns what is
/// not 0, throws or ends the process, when a kernel throws or breaks CUDA's rules, or when the run
/// does not end. Says on stderr what failed, with the shortest schedule that was found as a story.
int run_simulated(int argc, char** argv, int (*program)(int, char**));

/// PEs of the simulation that runs; requires in_simulation().
int simulated_pes();

}  // namespace peal::simt
