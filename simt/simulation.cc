// SPDX-License-Identifier: Apache-2.0
//
// The loop: choose a lane, run a slice, settle, let time pass.
#include "simt/simulation.h"

#include <algorithm>
#include <deque>
#include <exception>
#include <utility>
#include <vector>

#include "simt/block.h"
#include "simt/debug.h"
#include "simt/lane.h"
#include "simt/sanitizer.h"
#include "simt/stack_pool.h"
#include "simt/suspend.h"
#include "simt/worker.h"

namespace peal::simt {
namespace {

constexpr uint64_t kSliceNs = 20;
constexpr uint32_t kTurnsPerStep = 16;  // without a change, until time runs twice as fast
constexpr uint32_t kFastest = 30;       // doublings: 20 s a slice
constexpr uint32_t kLongestSleep = 400;

/// How one run goes about it, drawn from its seed: different runs look for different trouble.
struct Temper {
  uint32_t switch_one_in;  // operations on memory
  uint32_t sleep_one_in;   // slices
  Weather weather;
};

Temper draw_temper(Random& random) {
  constexpr uint32_t kSwitch[] = {2, 4, 16};
  constexpr uint32_t kSleep[] = {20, 100, 1000};
  constexpr uint32_t kStale[] = {32, 96, 160, 224};
  constexpr uint64_t kHorizon[] = {256, 2048, 16384};
  Temper temper{};
  temper.switch_one_in = kSwitch[random.below(3)];
  temper.sleep_one_in = kSleep[random.below(3)];
  temper.weather.stale_in_256 = kStale[random.below(4)];
  temper.weather.horizon = kHorizon[random.below(3)];
  return temper;
}

}  // namespace

/// One launch() or serve().
struct Party {
  Identity who;
  bool serves;
  Dim3 blocks_dim;
  Dim3 threads;
  std::function<void()> body;
  std::deque<Block> blocks;
};

class Simulation::State {
 public:
  State(uint64_t seed_given, const SimulationLimits& limits)
      : seed(seed_given),
        random(seed_given),
        temper(draw_temper(random)),
        memory(limits.memory_bytes, random),
        limits_(limits) {
    memory.set_weather(temper.weather);
  }
  ~State() { pool_->give_back(std::move(slabs_), stacks_); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  void add(const Identity& who, const Grid& grid, std::function<void()> body, bool serves);
  void run();
  void point();

  const uint64_t seed;
  Random random;
  const Temper temper;
  Memory memory;
  uint64_t now_ns = 1'000'000;
  uint64_t slices = 0;
  uint64_t decisions = 0xcbf29ce484222325;
  uint64_t weak_edges = 0;  // a bit each

 private:
  Lane& choose();
  void list();
  void run_lanes();
  void slice(Lane& lane);
  void let_time_pass();
  void unwind();
  std::string report() const;
  Party& party_of(const Lane& lane) { return *party_of_agent_[lane.rank]; }
  static void enter_lane(void* lane);
  void run_body(const Lane& lane);

  const SimulationLimits limits_;
  std::vector<Lane*> bag_;
  Ready ready_{&bag_};
  std::deque<Party> parties_;
  std::deque<ListedGrid> listed_;  // one for each
  std::vector<Party*> party_of_agent_;
  std::vector<uint64_t> asleep_until_;  // in slices, by agent
  int blocks_ = 0;
  size_t kernels_alive_ = 0;  // lanes
  uint64_t changes_seen_ = 0;
  uint64_t idle_slices_ = 0;
  std::exception_ptr failure_;
  ExceptionState* exceptions_ = nullptr;
  std::shared_ptr<StackPool> pool_ = StackPool::shared();
  std::vector<std::unique_ptr<StackSlab>> slabs_;
  size_t stacks_ = 0;
};

namespace {

constinit thread_local Simulation::State* running = nullptr;

}  // namespace

void Simulation::State::add(const Identity& who, const Grid& grid, std::function<void()> body,
                            bool serves) {
  const size_t lanes = checked_lanes(grid, simt::limits());
  parties_.push_back({who, serves, grid.blocks, grid.threads, std::move(body), {}});
  Party& party = parties_.back();
  for (uint64_t number = 0; number < grid.blocks.count(); ++number) {
    party.blocks.emplace_back(block_index(grid.blocks, number), grid.threads, grid.shared_bytes,
                              ready_, &memory);
    for (Lane& lane : party.blocks.back().lanes()) {
      lane.rank = party_of_agent_.size();
      party_of_agent_.push_back(&party);
      memory.add_agent({who.device, blocks_});
    }
    ++blocks_;
  }
  if (!serves) kernels_alive_ += lanes;
}

Lane& Simulation::State::choose() {
  constexpr int kTries = 8;
  size_t place = 0;
  for (int i = 0; i < kTries; ++i) {
    place = random.below(static_cast<uint32_t>(bag_.size()));
    if (asleep_until_[bag_[place]->rank] <= slices) break;
  }
  Lane& lane = *bag_[place];
  bag_[place] = bag_.back();
  bag_.pop_back();
  decisions = (decisions ^ lane.rank) * 0x100000001b3;
  if (random.one_in(temper.sleep_one_in)) {
    asleep_until_[lane.rank] = slices + random.below(kLongestSleep);
  }
  return lane;
}

void Simulation::State::let_time_pass() {
  const uint64_t changes = memory.changes();
  idle_slices_ = changes == changes_seen_ ? idle_slices_ + 1 : 0;
  changes_seen_ = changes;
  const uint64_t doublings = idle_slices_ / (kTurnsPerStep * (bag_.size() + 1));
  now_ns += kSliceNs << std::min<uint64_t>(doublings, kFastest);
}

void Simulation::State::slice(Lane& lane) {
  Party& party = party_of(lane);
  if (!lane.started) start(lane, slabs_, &State::enter_lane);
  blockDim = party.threads;
  gridDim = party.blocks_dim;
  release_to(&memory);  // see leave() in lane.cc
  resume(lane, *exceptions_);
  acquire_from(&memory);
  if (lane.abandoned) return;
  lane.block->settle(lane);
  if (lane.ended && !party.serves) --kernels_alive_;
}

void Simulation::State::run_lanes() {
  while (kernels_alive_ != 0 && failure_ == nullptr) {
    if (bag_.empty()) throw Error("deadlock: no lane can run");
    if (++slices > limits_.slices) {
      throw Error("not at its end after " + std::to_string(limits_.slices) + " slices");
    }
    slice(choose());
    let_time_pass();
  }
}

void Simulation::State::unwind() {
  for (Party& party : parties_) {
    for (Block& block : party.blocks) {
      for (Lane& lane : block.lanes()) {
        if (!lane.started || lane.ended) continue;
        lane.abandoned = true;
        slice(lane);  // an abandoned lane does not suspend again
      }
    }
  }
}

void Simulation::State::list() {
  for (const Party& party : parties_) {
    std::vector<const Lane*> first_lanes;
    for (const Block& block : party.blocks) first_lanes.push_back(block.lanes().data());
    listed_.emplace_back().show(party.blocks_dim, party.threads, std::move(first_lanes));
  }
}

std::string Simulation::State::report() const {
  std::string text = "\n  seed " + std::to_string(seed) + ", slice " + std::to_string(slices) +
                     ", at " + std::to_string(now_ns) + " ns";
  for (const Party& party : parties_) {
    for (const Block& block : party.blocks) {
      for (const Lane& lane : block.lanes()) {
        if (lane.ended) continue;
        text += "\n  agent " + std::to_string(lane.rank) + " (" + party.who.name + ", block " +
                std::to_string(block.index().x) + ", lane " + std::to_string(lane.thread.x) +
                "): " + (lane.started ? "last " + memory.last_of(lane.rank) : "not started");
      }
    }
  }
  return text;
}

void Simulation::State::run() {
  if (running != nullptr) throw Error("simulation: another one runs on this thread");
  asleep_until_.resize(party_of_agent_.size());
  stacks_ = party_of_agent_.size();
  slabs_ = pool_->take(stacks_, simt::limits().max_lanes, simt::limits().stack_bytes);
  exceptions_ = &exceptions_of_thread();
  list();
  running = this;
  std::string where;
  try {
    run_lanes();
  } catch (...) {
    // A lane that threw may be what broke the rules of those it left waiting.
    if (failure_ == nullptr) failure_ = std::current_exception();
  }
  if (failure_ != nullptr) where = report();
  unwind();
  running = nullptr;
  set_current_lane(nullptr);
  blockDim = gridDim = {1, 1, 1};
  threadIdx = blockIdx = {0, 0, 0};
  if (failure_ == nullptr) return;
  try {
    std::rethrow_exception(failure_);
  } catch (const std::exception& error) {
    throw Error(error.what() + where);
  }
}

PEAL_SIMT_UNSEEN void Simulation::State::enter_lane(void* argument) {
  Lane& lane = *static_cast<Lane*>(argument);
  State& state = *running;
  acquire_from(&state.memory);
  state.run_body(lane);
  release_to(&state.memory);
  lane.request.call = Call::kExit;
  lane.fiber.finish();
}

void Simulation::State::run_body(const Lane& lane) {
  try {
    party_of(lane).body();
  } catch (const Abandoned&) {
  } catch (...) {
    if (failure_ == nullptr) failure_ = std::current_exception();
  }
}

void Simulation::State::point() {
  if (random.one_in(temper.switch_one_in)) give_way(*current_lane());
}

Simulation::Simulation(uint64_t seed, const SimulationLimits& limits)
    : state_(std::make_unique<State>(seed, limits)) {}
Simulation::~Simulation() = default;

Memory& Simulation::memory() { return state_->memory; }
Random& Simulation::random() { return state_->random; }
void Simulation::launch(const Identity& who, const Grid& grid, std::function<void()> lane_body) {
  state_->add(who, grid, std::move(lane_body), false);
}
void Simulation::serve(const Identity& who, std::function<void()> body) {
  state_->add(who, {1, 1}, std::move(body), true);
}
void Simulation::run() { state_->run(); }
uint64_t Simulation::now_ns() const { return state_->now_ns; }
uint64_t Simulation::digest() const { return state_->decisions ^ state_->memory.digest(); }
uint64_t Simulation::slices() const { return state_->slices; }
void Simulation::weaken(unsigned edge) {
  if (edge != 0) state_->weak_edges |= uint64_t{1} << edge;
}

bool in_simulation() { return running != nullptr && current_lane() != nullptr; }

void point() {
  if (in_simulation()) running->point();
}

bool weakened(unsigned edge) {
  return running != nullptr && (running->weak_edges >> edge & 1) != 0;
}

uint64_t agent() { return current_lane()->rank; }

Memory* model_of(uintptr_t address) {
  if (!in_simulation() || !running->memory.holds(reinterpret_cast<const void*>(address)))
    return nullptr;
  return &running->memory;
}

Memory& model() { return running->memory; }

uint64_t simulated_ns() { return running->now_ns; }

}  // namespace peal::simt
