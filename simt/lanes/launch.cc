// SPDX-License-Identifier: Apache-2.0
#include "simt/lanes/launch.h"

#include <unistd.h>

#include <algorithm>
#include <deque>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/immortal.h"
#include "simt/lanes/debug.h"
#include "simt/lanes/lane.h"
#include "simt/lanes/sanitizer.h"
#include "simt/lanes/scheduler.h"
#include "simt/lanes/stack_pool.h"
#include "simt/lanes/worker.h"

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
constexpr size_t kMaxSharedBytes = 227 * 1024;
constexpr size_t kMinStackBytes = 16 * 1024;

void check_extent(const char* name, const Dim3& extent, const Dim3& most) {
  if (extent.x == 0 || extent.y == 0 || extent.z == 0 || extent.x > most.x || extent.y > most.y ||
      extent.z > most.z) {
    throw LaneError(std::string("launch: ") + name + " = " + extents_of(extent) +
                    ", each extent must be at least 1 and at most " + extents_of(most));
  }
}

Limits default_limits() {
  // ThreadSanitizer has room for 8128 threads and fibers.
  constexpr uint64_t kMostLanes = kThreadSanitized ? 4096 : uint64_t{1} << 17;
  // A lane that runs touches two to four pages of its stack.
  constexpr uint64_t kLaneBytes = 16 * 1024;
  const auto memory = static_cast<uint64_t>(std::max(0L, ::sysconf(_SC_PHYS_PAGES))) *
                      static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  return {
      .max_lanes = static_cast<unsigned>(
          std::clamp<uint64_t>(memory / 4 / kLaneBytes, kMaxBlockThreads, kMostLanes)),
      .workers = std::max(1U, std::thread::hardware_concurrency()),
      .stack_bytes = sanitized() ? size_t{256} * 1024 : size_t{64} * 1024,
      .busy_ms = 10'000,
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

size_t checked_lanes(const Grid& grid, const Limits& limits) {
  check_extent("blocks", grid.blocks, kMaxBlocks);
  check_extent("threads", grid.threads, kMaxThreads);
  const uint64_t threads = grid.threads.count();
  if (threads > kMaxBlockThreads) {
    throw LaneError("launch: threads = " + extents_of(grid.threads) + ", a block has at most 1024");
  }
  if (grid.shared_bytes > kMaxSharedBytes) {
    throw LaneError("launch: shared_bytes = " + std::to_string(grid.shared_bytes) +
                    ", a block has at most " + std::to_string(kMaxSharedBytes));
  }
  // In this order no product overflows: x * y < 2^47, so only z can, and it is compared first.
  const uint64_t plane = uint64_t{grid.blocks.x} * grid.blocks.y;
  if (plane > limits.max_lanes || plane * grid.blocks.z > limits.max_lanes / threads) {
    throw LaneError("launch: " + extents_of(grid.blocks) + " blocks of " + std::to_string(threads) +
                    " threads exceed Limits::max_lanes = " + std::to_string(limits.max_lanes) +
                    "; launch a smaller grid or raise the limit with set_limits()");
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

namespace {

/// Everything a grid lives in. Threads refer to it, so it stays where it is.
class ThreadedGrid : public Launch::State {
 public:
  ThreadedGrid(const Grid& grid, std::function<void()> lane_body, const Limits& limits);
  ~ThreadedGrid() override { join(); }

  void wait() override {
    join();
    if (program_.outcome.error() != nullptr) std::rethrow_exception(program_.outcome.error());
  }

 private:
  void deal_blocks(uint64_t blocks, size_t worker_count);
  void list(uint64_t blocks);
  void start_threads();
  /// Ends with the lanes gone and their stacks handed back.
  void join();

  LaunchState program_;
  const std::shared_ptr<StackPool> pool_ = StackPool::shared();
  size_t lanes_;
  std::deque<Worker> workers_;
  std::vector<std::thread> threads_;
  ListedGrid listed_;
};

ThreadedGrid::ThreadedGrid(const Grid& grid, std::function<void()> lane_body, const Limits& limits)
    : lanes_(checked_lanes(grid, limits)) {
  program_.blocks = grid.blocks;
  program_.threads = grid.threads;
  program_.shared_bytes = grid.shared_bytes;
  program_.kernel = grid.kernel;
  program_.busy_ms = limits.busy_ms;
  program_.lane_body = std::move(lane_body);
  const uint64_t blocks = grid.blocks.count();
  program_.slabs = pool_->take(lanes_, limits.max_lanes, limits.stack_bytes);
  try {
    deal_blocks(blocks, std::min<uint64_t>(limits.workers, blocks));
    list(blocks);
    start_threads();
  } catch (...) {
    program_.outcome.fail(std::current_exception());
    join();
    throw;
  }
}

void ThreadedGrid::deal_blocks(uint64_t blocks, size_t worker_count) {
  for (size_t i = 0; i < worker_count; ++i) workers_.emplace_back(program_);
  for (uint64_t i = 0; i < blocks; ++i) workers_[i % worker_count].add(i);
}

void ThreadedGrid::list(uint64_t blocks) {
  std::vector<const Lane*> first_lanes;
  first_lanes.reserve(blocks);
  for (uint64_t i = 0; i < blocks; ++i) {
    const Worker& worker = workers_[i % workers_.size()];
    first_lanes.push_back(worker.blocks()[i / workers_.size()].lanes().data());
  }
  listed_.show(program_.blocks, program_.threads, std::move(first_lanes));
}

void ThreadedGrid::start_threads() {
  threads_.reserve(workers_.size());
  for (Worker& worker : workers_) {
    threads_.emplace_back([&worker] { worker.run(); });
  }
}

void ThreadedGrid::join() {
  // Lanes that run on and on are told of here, for nobody else has the time.
  while (program_.ended.load() != threads_.size()) {
    program_.bell.wait();
    for (Worker& worker : workers_) worker.tell_of_busy_lane();
  }
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
  listed_.hide();
  program_.ended = 0;
  workers_.clear();
  pool_->give_back(std::exchange(program_.slabs, {}), std::exchange(lanes_, 0));
}

}  // namespace

Launch::Launch(std::unique_ptr<State> state) : state_(std::move(state)) {}
Launch::Launch(Launch&&) noexcept = default;
Launch& Launch::operator=(Launch&&) noexcept = default;
Launch::~Launch() = default;

void Launch::wait() {
  if (state_ != nullptr) state_->wait();
}

Launch launch(const Grid& grid, std::function<void()> lane_body) {
  if (in_kernel())
    throw LaneError("launch: called from inside a kernel; only a host thread launches");
  if (Scheduler* const scheduler = scheduler_of_lane(); scheduler != nullptr) {
    return Launch(scheduler->launch(grid, std::move(lane_body)));
  }
  return Launch(std::make_unique<ThreadedGrid>(grid, std::move(lane_body), limits()));
}

}  // namespace peal::simt
