// SPDX-License-Identifier: Apache-2.0
//
// The loop: choose a lane, run a slice, take what it asked for, let time pass.
#include "simt/simulation/simulation.h"

#include <algorithm>
#include <deque>
#include <exception>
#include <map>
#include <utility>
#include <vector>

#include "simt/lanes/block.h"
#include "simt/lanes/crash.h"
#include "simt/lanes/fibers.h"
#include "simt/lanes/lane.h"
#include "simt/lanes/launch_state.h"
#include "simt/lanes/place.h"
#include "simt/lanes/plain_access.h"
#include "simt/lanes/sanitizer.h"
#include "simt/lanes/scheduler.h"
#include "simt/lanes/suspend.h"
#include "simt/lanes/symbol.h"
#include "simt/simulation/announced.h"
#include "simt/simulation/seed_profile.h"
#include "simt/simulation/simulated_process.h"

namespace peal::simt {
namespace {

constexpr uint64_t kSliceNs = 20;
constexpr uint32_t kTurnsPerStep = 16;  // without a change, until time runs twice as fast
constexpr uint32_t kFastest = 30;       // doublings: 20 s a slice
constexpr uint32_t kLongestSleep = 400;
constexpr unsigned kMostPoints = 500;   // in a slice: a lane may spin where nobody interrupts it
constexpr unsigned kLastPoints = 1000;  // of an abandoned lane

// Lanes of grids that are resident though none of them waits: order among so many agents takes 8
// MiB, and four times that for twice as many. Blocks that wait for others get more room, whenever
// no lane has ended for so many turns of each.
constexpr uint64_t kLanesAtOnce = 1024;
constexpr uint64_t kTurnsAlone = 64;

}  // namespace

class Simulation::State final : public Scheduler {
 public:
  State(uint64_t seed_given, const SimulationLimits& limits)
      : seed(seed_given),
        random(seed_given),
        profile(draw_profile(random)),
        decisions(random.next()),
        memory(limits.memory_bytes, decisions),
        limits_(limits) {
    memory.set_weakness(profile.weakness);
    fibers_.set_stack_bytes(simt::limits().stack_bytes);
    host_fibers_.set_stack_bytes(kHostStackBytes);
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  std::shared_ptr<SimulatedProcess> add(Identity who, ProcessKind kind, const LaneGrid& grid,
                                        std::function<void()> body);
  void run();
  void observe(const PlainAccess& access);
  SimulatedProcess& process_of(const Lane& lane) const { return *process_of_agent_[lane.rank]; }

  std::unique_ptr<GridRun::State> launch(const LaneGrid& grid,
                                         std::function<void()> lane_body) override {
    return start_grid(grid, std::move(lane_body));
  }
  const void* kernel() const override { return this_process().grid.kernel; }
  const std::string& owner() const override { return this_process().who.name; }
  uint64_t most_resident_blocks() const override { return this_process().most_resident_blocks(); }
  uint64_t now_ns() const override { return now; }
  void point() override;
  void fence(FenceReach reach) override;
  void meet(const std::vector<uint64_t>& ranks) override { memory.meet(ranks); }

  const uint64_t seed;
  Random random;
  const SeedProfile profile;
  Decisions decisions;
  WeakMemory memory;
  Announced announced{memory};
  uint64_t now = 1'000'000;  // ns
  uint64_t slices = 0;
  uint64_t chosen = 0xcbf29ce484222325;
  uint64_t weak_edges = 0;  // a bit each

 private:
  bool runs() const;
  uint64_t number(const AgentGroup& place);
  void begin_block(SimulatedProcess& process);
  void begin_blocks();
  void make_room();
  Lane& choose();
  void run_lanes();
  Fibers& fibers_of(const Lane& lane) { return lane.on_host ? host_fibers_ : fibers_; }
  void slice(Lane& lane);
  void end(Lane& lane);
  void let_time_pass();
  void unwind();
  std::string report() const;
  [[noreturn]] static void serve(Fiber& fiber);
  void run_body(const Lane& lane);

  const SimulationLimits limits_;
  std::vector<Lane*> bag_;  // in the order in which they became ready
  Ready ready_{&bag_};
  std::vector<std::shared_ptr<SimulatedProcess>> processes_;
  std::vector<SimulatedProcess*> process_of_agent_;
  std::vector<uint64_t> asleep_until_;                 // in slices, by agent
  std::map<int, std::vector<uint64_t>> ended_agents_;  // by device
  int blocks_ = 0;
  size_t lasting_ = 0;     // lanes that the run waits for
  uint64_t resident_ = 0;  // lanes of grids
  uint64_t room_ = kLanesAtOnce;
  uint64_t last_end_ = 0;  // of a lane or of a wait for room, in slices
  uint64_t changes_seen_ = 0;
  uint64_t idle_slices_ = 0;
  uint64_t last_ = 0;         // agent that ran
  uint64_t points_ = 0;       // of the slice
  unsigned last_points_ = 0;  // of an abandoned lane
  std::exception_ptr failure_;
  ExceptionState* exceptions_ = nullptr;
  Fibers fibers_{&State::serve};
  Fibers host_fibers_{&State::serve};
};

namespace {

/// The simulation that runs on this thread, or null.
Simulation::State* running() { return static_cast<Simulation::State*>(scheduler_of_thread()); }

void observe(const PlainAccess& access) {
  if (in_simulation()) running()->observe(access);
}

}  // namespace

bool Simulation::State::runs() const { return running() == this; }

// An agent that has ended serves again on its device: a kernel is behind those before it there.
uint64_t Simulation::State::number(const AgentGroup& place) {
  std::vector<uint64_t>& ended = ended_agents_[place.device];
  if (ended.empty() || !runs()) {
    process_of_agent_.push_back(nullptr);
    asleep_until_.push_back(0);
    return memory.add_agent(place);
  }
  const uint64_t agent = ended.back();
  ended.pop_back();
  memory.reuse_agent(agent, place);
  return agent;
}

std::shared_ptr<SimulatedProcess> Simulation::State::add(Identity who, ProcessKind kind,
                                                         const LaneGrid& grid,
                                                         std::function<void()> body) {
  const Limits in_force = simt::limits();
  grid.cooperative ? static_cast<void>(checked_lanes(grid, in_force)) : check_grid(grid);
  auto process = std::make_shared<SimulatedProcess>();
  processes_.push_back(process);
  if (runs()) process->before = memory.release(agent());
  process->who = std::move(who);
  process->kind = kind;
  process->grid = grid;
  process->body = std::move(body);
  process->most_lanes = in_force.max_lanes;
  process->alive = grid.blocks.count() * grid.threads.count();
  process->listed.show(grid.blocks, grid.threads, process->residents, &process->begun);
  if (process->lasts()) lasting_ += process->alive;
  begin_blocks();
  return process;
}

void Simulation::State::begin_block(SimulatedProcess& process) {
  LaneBlock& block = process.begin_block(ready_, *this);
  if (process.kind == ProcessKind::kGrid) resident_ += block.lanes().size();
  for (Lane& lane : block.lanes()) {
    ready_.push(lane);
    lane.rank = number({process.who.device, blocks_});
    lane.on_host = process.on_host();
    lane.exceptions = {};
    process_of_agent_[lane.rank] = &process;
    if (process.before != nullptr) memory.acquire(lane.rank, process.before);
  }
  ++blocks_;
}

// As many as there is room for. The first of each grid always has room.
void Simulation::State::begin_blocks() {
  for (const std::shared_ptr<SimulatedProcess>& process : processes_) {
    const uint64_t lanes = process->grid.threads.count();
    const uint64_t most = std::min(room_, process->most_lanes);
    while (!process->all_begun() &&
           (process->resident == 0 || process->grid.cooperative || resident_ + lanes <= most)) {
      begin_block(*process);
    }
  }
}

// What the lanes that are resident wait for may be done by a block that has not begun.
void Simulation::State::make_room() {
  last_end_ = slices;
  const bool all_begun =
      std::ranges::all_of(processes_, [](const auto& process) { return process->all_begun(); });
  room_ = all_begun ? kLanesAtOnce : std::min<uint64_t>(2 * room_, simt::limits().max_lanes);
  begin_blocks();
}

Lane& Simulation::State::choose() {
  constexpr int kTries = 8;
  size_t place = 0;
  for (int i = 0; i < kTries; ++i) {
    place = decisions.below(Question::kNext, last_, static_cast<uint32_t>(bag_.size()));
    if (asleep_until_[bag_[place]->rank] <= slices) break;
  }
  Lane& lane = *bag_[place];
  bag_.erase(bag_.begin() + static_cast<ptrdiff_t>(place));
  chosen = (chosen ^ lane.rank) * 0x100000001b3;
  last_ = lane.rank;
  if (decisions.chance(Question::kSleep, last_, 1, profile.sleep_one_in)) {
    asleep_until_[last_] = slices + decisions.below(Question::kSleep, last_, kLongestSleep);
  }
  return lane;
}

void Simulation::State::let_time_pass() {
  const uint64_t changes = memory.changes();
  idle_slices_ = changes == changes_seen_ ? idle_slices_ + 1 : 0;
  changes_seen_ = changes;
  const uint64_t turns = idle_slices_ / (bag_.size() + 1);
  if (limits_.idle_turns != 0 && turns > limits_.idle_turns) {
    throw LaneError("nobody gets on: all lanes that have not ended wait, and nothing changes");
  }
  const uint64_t doublings = turns / kTurnsPerStep;
  now += kSliceNs << std::min<uint64_t>(doublings, kFastest);
}

void Simulation::State::slice(Lane& lane) {
  const LaneGrid& grid = process_of(lane).grid;
  points_ = 0;
  if (!lane.started) {
    lane.fiber = &fibers_of(lane).take();
    name_fiber(lane.fiber->stack(), lane);
    lane.started = true;
  }
  blockDim = grid.threads;
  gridDim = grid.blocks;
  release_to(this);  // see leave() in lane.cc
  resume(lane, home(), *exceptions_);
  acquire_from(this);
  announced.complete();
  if (lane.abandoned) return;
  lane.block->take_request(lane);
  if (lane.ended) end(lane);
}

void Simulation::State::end(Lane& lane) {
  SimulatedProcess& process = process_of(lane);
  fibers_of(lane).give_back(*lane.fiber);
  memory.fence(lane.rank, MemoryOrder::kRelease);  // a kernel that has ended is seen by all
  process.behind = both(process.behind, memory.release(lane.rank));
  ended_agents_[process.who.device].push_back(lane.rank);
  if (process.lasts()) --lasting_;
  last_end_ = slices;
  if (lane.block->live() == 0) {
    if (process.kind == ProcessKind::kGrid) resident_ -= lane.block->lanes().size();
    process.retire(*lane.block);
    begin_blocks();
  }
  if (--process.alive != 0) return;
  process.listed.hide();
  std::erase_if(processes_, [&process](const auto& one) { return one.get() == &process; });
}

void Simulation::State::run_lanes() {
  while (lasting_ != 0 && failure_ == nullptr) {
    if (bag_.empty()) throw LaneError("deadlock: no lane can run");
    if (++slices > limits_.slices) {
      throw LaneError("not at its end after " + std::to_string(limits_.slices) + " slices");
    }
    slice(choose());
    let_time_pass();
    if (slices - last_end_ > kTurnsAlone * (bag_.size() + 1)) make_room();
  }
}

// Hosts and threads stay as they are: what their destructors would wait for does not come.
void Simulation::State::unwind() {
  for (const std::shared_ptr<SimulatedProcess>& process : processes_) {
    if (process->on_host()) continue;
    for (LaneBlock& block : process->blocks) {
      for (Lane& lane : block.lanes()) {
        if (!lane.started || lane.ended) continue;
        lane.abandoned = true;
        last_points_ = 0;
        slice(lane);
      }
    }
  }
}

std::string Simulation::State::report() const {
  std::string text = "\n  seed " + std::to_string(seed) + ", slice " + std::to_string(slices) +
                     ", at " + std::to_string(now) + " ns";
  for (const std::shared_ptr<SimulatedProcess>& process : processes_) {
    if (process->kind == ProcessKind::kThread) continue;
    if (!process->all_begun()) {
      text += "\n  " + process->who.name + ": of " + std::to_string(process->grid.blocks.count()) +
              " blocks " + std::to_string(process->begun) +
              " have begun, as many as there is room for (SIMT_MAX_LANES)";
    }
    for (const LaneBlock& block : process->blocks) {
      for (const Lane& lane : block.lanes()) {
        if (lane.ended) continue;
        text += "\n  agent " + std::to_string(lane.rank) + " (" + process->who.name;
        if (!lane.on_host) {
          text += ", block " + std::to_string(block.index().x) + ", lane " +
                  std::to_string(lane.thread.x);
        }
        text += "): " + (lane.started ? "last " + memory.last_of(lane.rank) : "not started");
      }
    }
  }
  return text;
}

void Simulation::State::run() {
  if (running() != nullptr) throw LaneError("simulation: another one runs on this thread");
  exceptions_ = &exceptions_of_thread();
  const SignalStack signal_stack;
  tell_of_crashes();
  set_scheduler(this);
  observe_accesses(&simt::observe);
  std::string where;
  try {
    run_lanes();
  } catch (...) {
    // A lane that threw may be what broke the rules of those it left waiting.
    if (failure_ == nullptr) failure_ = std::current_exception();
  }
  if (failure_ != nullptr) where = report();
  unwind();
  observe_accesses(nullptr);
  set_scheduler(nullptr);
  set_current_lane(nullptr);
  blockDim = gridDim = {1, 1, 1};
  threadIdx = blockIdx = {0, 0, 0};
  if (failure_ == nullptr) return;
  try {
    std::rethrow_exception(failure_);
  } catch (const std::exception& error) {
    throw LaneError(error.what() + where);
  }
}

// Between lanes the fiber stands in switch_to().
PEAL_SIMT_UNSEEN void Simulation::State::serve(Fiber& fiber) {
  for (;;) {
    Lane& lane = *current_lane();
    State& state = *running();
    acquire_from(&state);
    state.run_body(lane);
    release_to(&state);
    lane.request.call = LaneCall::kExit;
    fiber.switch_to(state.home());
  }
}

void Simulation::State::run_body(const Lane& lane) {
  try {
    process_of(lane).body();
  } catch (const Abandoned&) {
  } catch (...) {
    if (failure_ == nullptr) failure_ = std::current_exception();
  }
}

// An abandoned lane goes on until it calls what may throw. One that loops and never does stays
// where it is: its destructors do not run.
void Simulation::State::point() {
  Lane& lane = *current_lane();
  announced.complete();
  if (lane.abandoned && ++last_points_ > kLastPoints) leave_for_good(lane);
  const bool interrupted =
      decisions.chance(Question::kInterrupt, lane.rank, 1, profile.switch_one_in);
  if (interrupted || ++points_ == kMostPoints) give_way(lane);
}

void Simulation::State::fence(FenceReach reach) {
  constexpr Scope kScopes[] = {Scope::kBlock, Scope::kDevice, Scope::kSystem};
  point();
  memory.fence(agent(), MemoryOrder::kBoth, kScopes[static_cast<size_t>(reach)]);
}

// An access that a kernel makes by itself, ahead of it.
void Simulation::State::observe(const PlainAccess& access) {
  if (!announced.concerns(access) || announced.take_end_of_update(access)) return;
  announced.complete();
  // Code of hosts has variables of threads, which all hosts share here: they run until they wait.
  if (!current_lane()->on_host) point();
  announced.take(agent(), access);
}

Simulation::Simulation(uint64_t seed, const SimulationLimits& limits)
    : state_(std::make_unique<State>(seed, limits)) {}
Simulation::~Simulation() = default;

WeakMemory& Simulation::memory() { return state_->memory; }
Random& Simulation::random() { return state_->random; }
void Simulation::launch(const Identity& who, const LaneGrid& grid,
                        std::function<void()> lane_body) {
  state_->add(who, ProcessKind::kGrid, grid, std::move(lane_body));
}
void Simulation::serve(const Identity& who, std::function<void()> body) {
  state_->add(who, ProcessKind::kServer, {1, 1}, std::move(body));
}
void Simulation::host(const Identity& who, std::function<void()> body) {
  state_->add(who, ProcessKind::kHost, {1, 1}, std::move(body));
}
void Simulation::run() { state_->run(); }
uint64_t Simulation::now_ns() const { return state_->now; }
uint64_t Simulation::digest() const { return state_->chosen ^ state_->memory.digest(); }
uint64_t Simulation::slices() const { return state_->slices; }
const Decisions& Simulation::decisions() const { return state_->decisions; }
void Simulation::keep_only(std::vector<uint64_t> decisions) {
  state_->decisions.keep_only(std::move(decisions));
}
void Simulation::weaken(unsigned edge) {
  if (edge != 0) state_->weak_edges |= uint64_t{1} << edge;
}

bool in_simulation() { return scheduler_of_lane() != nullptr; }

void point() {
  if (in_simulation()) running()->point();
}

bool weakened(unsigned edge) {
  return running() != nullptr && (running()->weak_edges >> edge & 1) != 0;
}

uint64_t agent() { return current_lane()->rank; }

WeakMemory* model_of(uintptr_t address) {
  WeakMemory* const memory = in_simulation() ? &model() : nullptr;
  const bool holds = memory != nullptr && memory->holds(reinterpret_cast<const void*>(address));
  return holds ? memory : nullptr;
}

WeakMemory& model() { return running()->memory; }

int simulated_pe() { return this_process().who.pe; }

std::string name_in_model(const std::string& what) {
  return what + " of PE " + std::to_string(simulated_pe());
}

std::string who_runs() {
  SimulatedProcess& process = this_process();
  if (process.on_host()) return process.who.name;
  const Lane& lane = *current_lane();
  if (process.grid.kernel != nullptr && process.kernel.empty()) {
    process.kernel = ", kernel " + function_at(reinterpret_cast<uintptr_t>(process.grid.kernel));
  }
  const std::string text = process.who.name + process.kernel;
  if (process.grid.blocks.count() * process.grid.threads.count() == 1) return text;
  return text + ", block " + std::to_string(lane.block->number()) + " thread " +
         std::to_string(thread_rank());
}

uint64_t place_of_access() {
  const void* const code = running()->announced.code();
  if (code == nullptr) return place_here("");
  return place_from(reinterpret_cast<uintptr_t>(code) + 1);
}

std::shared_ptr<SimulatedProcess> start_process(ProcessKind kind, const LaneGrid& grid,
                                                std::function<void()> body) {
  auto process = running()->add(this_process().who, kind, grid, std::move(body));
  process->device_in_use = this_process().device_in_use;
  return process;
}

void await_process(const SimulatedProcess& process) {
  while (process.alive != 0) yield();
  running()->memory.acquire(agent(), process.behind);
}

SimulatedProcess& this_process() { return running()->process_of(*current_lane()); }

}  // namespace peal::simt
