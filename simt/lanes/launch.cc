// SPDX-License-Identifier: Apache-2.0
#include "simt/lanes/launch.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/immortal.h"
#include "simt/lanes/brief_spin.h"
#include "simt/lanes/debug.h"
#include "simt/lanes/lane.h"
#include "simt/lanes/launch_state.h"
#include "simt/lanes/sanitizer.h"
#include "simt/lanes/scheduler.h"
#include "simt/lanes/worker.h"
#include "simt/lanes/worker_threads.h"

namespace peal::simt {
namespace {

std::string extents_of(const Dim3& extent) {
  return std::to_string(extent.x) + " x " + std::to_string(extent.y) + " x " +
         std::to_string(extent.z);
}

// What CUDA allows on every device of compute capability 9.0.
constexpr Dim3 kMaxBlocks{0x7fffffff, 65535, 65535};
constexpr Dim3 kMaxThreads{1024, 1024, 64};
constexpr unsigned kMaxBlockThreads = 1024;
constexpr size_t kMinStackBytes = 16 * 1024;

void check_extent(const char* name, const Dim3& extent, const Dim3& most) {
  if (extent.x == 0 || extent.y == 0 || extent.z == 0 || extent.x > most.x || extent.y > most.y ||
      extent.z > most.z) {
    throw LaneError(std::string("launch: ") + name + " = " + extents_of(extent) +
                    ", each extent must be at least 1 and at most " + extents_of(most));
  }
}

constexpr char kMaxLanes[] = "SIMT_MAX_LANES";

/// The setting, or nothing.
std::optional<unsigned> lanes_by_environment() {
  const char* const text = std::getenv(kMaxLanes);
  if (text == nullptr || *text == '\0') return {};
  char* end = nullptr;
  const unsigned long lanes = std::strtoul(text, &end, 10);
  constexpr unsigned long kMost = 1UL << 24;
  if (*end != '\0' || lanes == 0 || lanes > kMost) {
    throw LaneError(std::string(kMaxLanes) + " = " + text + ", must be a number from 1 to " +
                    std::to_string(kMost));
  }
  return static_cast<unsigned>(lanes);
}

unsigned lanes_by_memory() {
  // ThreadSanitizer has room for 8128 threads and fibers.
  constexpr uint64_t kMostLanes = kThreadSanitized ? 4096 : uint64_t{1} << 17;
  // A lane that waits has touched two to four pages of its stack.
  constexpr uint64_t kLaneBytes = 16 * 1024;
  const auto memory = static_cast<uint64_t>(std::max(0L, ::sysconf(_SC_PHYS_PAGES))) *
                      static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  return static_cast<unsigned>(
      std::clamp<uint64_t>(memory / 4 / kLaneBytes, kMaxBlockThreads, kMostLanes));
}

Limits default_limits() {
  return {
      .max_lanes = lanes_by_environment().value_or(lanes_by_memory()),
      .workers = std::max(1U, std::thread::hardware_concurrency()),
      .stack_bytes = sanitized() ? size_t{256} * 1024 : size_t{64} * 1024,
      .busy_ms = 10'000,
      .stall_ms = 600'000,
  };
}

struct LimitsInForce {
  std::mutex mutex;
  Limits value = default_limits();
};

LimitsInForce& limits_in_force() {
  // One for the process: device code that launches nothing itself must not carry it around.
  static Immortal<LimitsInForce> in_force;
  return *in_force;
}

}  // namespace

void check_grid(const LaneGrid& grid) {
  check_extent("blocks", grid.blocks, kMaxBlocks);
  check_extent("threads", grid.threads, kMaxThreads);
  if (grid.threads.count() > kMaxBlockThreads) {
    throw LaneError("launch: threads = " + extents_of(grid.threads) + ", a block has at most 1024");
  }
  if (grid.shared_bytes > kMaxSharedBytes) {
    throw LaneError("launch: shared_bytes = " + std::to_string(grid.shared_bytes) +
                    ", a block has at most " + std::to_string(kMaxSharedBytes));
  }
}

size_t checked_lanes(const LaneGrid& grid, const Limits& limits) {
  check_grid(grid);
  const uint64_t threads = grid.threads.count();
  // In this order no product overflows: x * y < 2^47, so only z can, and it is compared first.
  const uint64_t plane = uint64_t{grid.blocks.x} * grid.blocks.y;
  if (plane > limits.max_lanes || plane * grid.blocks.z > limits.max_lanes / threads) {
    throw LaneError("launch: " + extents_of(grid.blocks) + " blocks of " + std::to_string(threads) +
                    " threads, which must all be resident, exceed Limits::max_lanes = " +
                    std::to_string(limits.max_lanes) + ", which has room for " +
                    std::to_string(limits.max_lanes / threads) +
                    "; launch fewer or raise the limit by SIMT_MAX_LANES or set_limits()");
  }
  return plane * grid.blocks.z * threads;
}

Limits limits() {
  LimitsInForce& in_force = limits_in_force();
  const std::lock_guard lock(in_force.mutex);
  return in_force.value;
}

void set_limits(const Limits& limits) {
  if (limits.max_lanes == 0 || limits.workers == 0 || limits.stack_bytes < kMinStackBytes) {
    throw LaneError("set_limits: max_lanes = " + std::to_string(limits.max_lanes) +
                    ", workers = " + std::to_string(limits.workers) +
                    ", stack_bytes = " + std::to_string(limits.stack_bytes) +
                    "; lanes and workers must be at least 1 and the stack at least 16384 bytes");
  }
  LimitsInForce& in_force = limits_in_force();
  const std::lock_guard lock(in_force.mutex);
  in_force.value = limits;
}

void LaunchOutcome::fail(std::exception_ptr error) {
  const std::lock_guard lock(mutex_);
  if (error_ == nullptr) error_ = std::move(error);
  stopped_.store(true, std::memory_order_relaxed);
}

namespace {

// Counted for the whole process: lanes take memory, whichever launch they belong to.
constinit std::atomic<uint64_t> resident_lanes{0};

}  // namespace

bool ResidentLanes::take(uint64_t lanes, uint64_t most) {
  if (resident_lanes.fetch_add(lanes, std::memory_order_relaxed) + lanes <= most) return true;
  give_back(lanes);
  return false;
}

void ResidentLanes::give_back(uint64_t lanes) {
  resident_lanes.fetch_sub(lanes, std::memory_order_relaxed);
}

LaunchState::LaunchState(const LaneGrid& grid, const std::function<void()>& body, const Limits& of)
    : blocks(grid.blocks),
      threads(grid.threads),
      block_count(grid.blocks.count()),
      block_lanes(grid.threads.count()),
      shared_bytes(grid.shared_bytes),
      cooperative(grid.cooperative),
      kernel(grid.kernel),
      lane_body(body),
      limits(of),
      workers(static_cast<unsigned>(std::min<uint64_t>(of.workers, block_count))) {}

namespace {

/// A worker on a thread that was lent.
class WorkerJob : public ThreadJob {
 public:
  WorkerJob(LaunchState& program, ResidentBlocks& residents)
      : program_(program), residents_(residents) {}

  void run() override {
    try {
      Worker(program_, residents_).run();
    } catch (...) {
      program_.outcome.fail(std::current_exception());
    }
  }
  void tell_end() override {
    std::atomic<unsigned>& ended = program_.ended;
    ended.fetch_add(1);
    ended.notify_all();
  }

 private:
  LaunchState& program_;
  ResidentBlocks& residents_;
};

/// Everything a grid lives in. Threads refer to it, so it stays where it is.
class ThreadedGrid {
 public:
  ThreadedGrid(const LaneGrid& grid, const std::function<void()>& lane_body);
  ThreadedGrid(const ThreadedGrid&) = delete;
  ThreadedGrid& operator=(const ThreadedGrid&) = delete;

  /// Gives the workers from number `first` on to threads.
  void start(unsigned first);
  /// Worker 0, on the calling thread.
  void run_here() { Worker(program_, residents_[0]).run(); }
  /// Returns once all that were started have ended. Takes back those that have not begun where
  /// `done`: nothing is left for them.
  void join(bool done);
  void rethrow() const {
    if (program_.outcome.error() != nullptr) std::rethrow_exception(program_.outcome.error());
  }

 private:
  LaunchState program_;
  std::vector<ResidentBlocks> residents_;  // of each worker
  std::deque<WorkerJob> jobs_;
  std::vector<WorkerThread*> threads_;  // of each job
  ListedGrid listed_;
};

ThreadedGrid::ThreadedGrid(const LaneGrid& grid, const std::function<void()>& lane_body)
    : program_(grid, lane_body, simt::limits()), residents_(program_.workers) {
  grid.cooperative ? static_cast<void>(checked_lanes(grid, program_.limits)) : check_grid(grid);
  listed_.show(grid.blocks, grid.threads, residents_, &program_.begun_blocks());
}

void ThreadedGrid::start(unsigned first) {
  try {
    for (unsigned i = first; i < program_.workers; ++i) {
      jobs_.emplace_back(program_, residents_[i]);
      threads_.push_back(&WorkerThreads::of_process().give(jobs_.back()));
    }
  } catch (...) {
    program_.outcome.fail(std::current_exception());
    join(true);
    throw;
  }
}

void ThreadedGrid::join(bool done) {
  size_t begun = threads_.size();
  for (size_t i = 0; done && i < threads_.size(); ++i) {
    if (WorkerThreads::of_process().take_back(*threads_[i], jobs_[i])) --begun;
  }
  std::atomic<unsigned>& ended = program_.ended;
  const auto all_ended = [&] { return ended.load() == begun; };
  if (spin_briefly(all_ended)) return;
  for (unsigned now = ended.load(); now != begun; now = ended.load()) ended.wait(now);
}

/// One that runs while the thread that launched it goes on.
class RunningGrid : public GridRun::State {
 public:
  RunningGrid(const LaneGrid& grid, std::function<void()> lane_body)
      : lane_body_(std::move(lane_body)), grid_(grid, lane_body_) {
    grid_.start(0);
  }
  ~RunningGrid() override { grid_.join(false); }
  void wait() override {
    grid_.join(false);
    grid_.rethrow();
  }

 private:
  const std::function<void()> lane_body_;
  ThreadedGrid grid_;
};

void refuse_lanes() {
  if (!in_kernel()) return;
  throw LaneError("launch: called from inside a kernel; only a host thread launches");
}

}  // namespace

GridRun::GridRun(std::unique_ptr<State> state) : state_(std::move(state)) {}
GridRun::GridRun(GridRun&&) noexcept = default;
GridRun& GridRun::operator=(GridRun&&) noexcept = default;
GridRun::~GridRun() = default;

void GridRun::wait() {
  if (state_ != nullptr) state_->wait();
}

GridRun launch(const LaneGrid& grid, std::function<void()> lane_body) {
  refuse_lanes();
  if (Scheduler* const scheduler = scheduler_of_lane(); scheduler != nullptr) {
    return GridRun(scheduler->launch(grid, std::move(lane_body)));
  }
  return GridRun(std::make_unique<RunningGrid>(grid, std::move(lane_body)));
}

void launch_and_wait(const LaneGrid& grid, const std::function<void()>& lane_body) {
  if (in_kernel() || scheduler_of_lane() != nullptr) return launch(grid, lane_body).wait();
  ThreadedGrid here(grid, lane_body);
  here.start(1);
  here.run_here();
  here.join(true);
  here.rethrow();
}

}  // namespace peal::simt
