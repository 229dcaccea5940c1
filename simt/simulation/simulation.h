// SPDX-License-Identifier: Apache-2.0
//
// Kernels of several devices, and whatever serves them, in one thread under one random schedule: a
// seed says who runs next, for how long, how late stores are seen, and what time it is. The same
// seed replays the same run, bit for bit.
//
//   Simulation sim(seed);
//   auto* word = static_cast<uint64_t*>(sim.memory().allocate(8, "word"));
//   sim.launch({.name = "pe 0", .device = 0}, {1, 32}, [&] { kernel(word); });
//   sim.serve({.name = "nic 0", .device = 2}, [&] { for (;;) { poll(); simt::yield(); } });
//   sim.run();            // throws Error, which names the seed, if it does not end well
//
// Any code runs here. Code compiled with PEAL_SIM=1 also meets weak memory: its operations of
// device/base/order.h on sim.memory() follow the model of simt/simulation/memory.h, and each may be
// where the schedule changes. Other code is switched at simt's own calls only.
//
// Invariant: nothing but the seed decides. So lanes must not ask for real time, addresses or
// random numbers of their own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "simt/lanes/launch.h"
#include "simt/simulation/memory.h"

namespace peal::simt {

/// Who runs, for reports and for the reach of memory operations.
struct Identity {
  std::string name;
  int device = 0;
  int pe = 0;  ///< of a program's host, and of what that starts
};

struct SimulationLimits {
  size_t memory_bytes = size_t{1} << 20;
  uint64_t slices = 20'000'000;  ///< after so many the run has failed: nobody gets on
  uint64_t idle_turns = 0;       ///< of each lane, without a change in memory: the same; 0: never
};

class Simulation {
 public:
  class State;  ///< private to simulation.cc

  explicit Simulation(uint64_t seed, const SimulationLimits& limits = {});
  ~Simulation();
  Simulation(const Simulation&) = delete;
  Simulation& operator=(const Simulation&) = delete;

  WeakMemory& memory();
  /// Chance for the program around the simulation, from the same seed.
  Random& random();

  /// Adds a grid, before run(). Throws Error for a grid that CUDA would refuse.
  void launch(const Identity& who, const LaneGrid& grid, std::function<void()> lane_body);
  /// Adds one lane that need not end: it is unwound once all grids have.
  void serve(const Identity& who, std::function<void()> body);
  /// Adds one lane that is a program's host: it is in no kernel, may launch grids and start
  /// simt::Threads, and has a stack of kHostStackBytes.
  void host(const Identity& who, std::function<void()> body);
  static constexpr size_t kHostStackBytes = size_t{2} << 20;

  /// Runs everything, once; one simulation at a time on a thread. Throws the first exception that
  /// left a lane, or Error when lanes break CUDA's rules, wait for each other, or do not end in
  /// time; the message ends with the seed and, for each agent that has not ended, what it did last.
  void run();

  /// Simulated nanoseconds. It runs ahead while everybody only waits, so that deadlines pass.
  uint64_t now_ns() const;
  /// A hash of all decisions and of every operation on modelled memory.
  uint64_t digest() const;
  uint64_t slices() const;
  const Decisions& decisions() const;
  /// Before run(): repeats a run of the seed with few of the decisions that it took.
  void keep_only(std::vector<uint64_t> decisions);

  /// Takes the ordering from what is tagged with this edge (device/base/edge.h): a test that is
  /// worth its name fails then. Of edges below 64; as many as are named. 0: from nothing.
  void weaken(unsigned edge);

 private:
  std::unique_ptr<State> state_;
};

// What code inside asks. Outside of a simulation: false, nothing, the real clock.

/// True on a lane of a simulation, and on a host of one.
bool in_simulation();
/// A place where another lane may run next.
void point();
/// True if the simulation that runs weakens `edge`.
bool weakened(unsigned edge);
/// This lane's number among all of its simulation. Who starts later may have the number of somebody
/// who has ended.
uint64_t agent();
/// The memory of the simulation that runs if it holds this address, else null.
WeakMemory* model_of(uintptr_t address);
/// The simulation's memory; requires in_simulation().
WeakMemory& model();
/// "WHAT of PE 1", where the calling lane is of PE 1; requires in_simulation().
std::string name_in_model(const std::string& what);
/// The PE of the calling lane; requires in_simulation().
int simulated_pe();
/// "PE 1, kernel ring, block 0 thread 3"; requires in_simulation().
std::string who_runs();
/// Where the lane is whose access is being told (simt/lanes/place.h); requires in_simulation().
uint64_t place_of_access();

}  // namespace peal::simt
