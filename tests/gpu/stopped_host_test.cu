// SPDX-License-Identifier: Apache-2.0
//
// No CPU of a PE takes part in its transfers: every host thread of one PE after the other is
// stopped while PE 0's kernel puts, signals, counts and gets at PE 1, and it goes on.
//
//   PE 0's kernel  ==>  PE 1's memory      PE 1 stops PE 0, watches its own counter; then PE 0
//                                          stops PE 1 and watches its kernel's progress
//
//   stopped_host_test       two processes of its own; over the NIC unless PEAL_TRANSPORT is set
//
// Prints "N passed, N failed". Nothing waits longer than kLimit.
#include <dirent.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "bootstrap/borrowed.h"
#include "peal/peal.h"

extern "C" char** environ;

namespace {

using namespace peal;
using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr auto kLimit = 30s;
constexpr uint64_t kLimitNs = 30'000'000'000;
constexpr auto kPause = 1s;  // under test: how long host threads are stopped
constexpr uint64_t kLongestNs = 500'000'000;
constexpr uint32_t kWords = 128;

/// Symmetric; the same offsets on both PEs.
struct Memory {
  uint64_t* source;   // [kWords]
  uint64_t* data;     // [kWords]
  uint64_t* back;     // [kWords]
  uint64_t* counter;  // signalled with every put
  uint64_t* sum;      // incremented every round
  uint64_t* end;      // of PE 0: set by PE 1
  uint64_t* result;   // of PE 0: rounds, status, wrong words, longest pause
};
constexpr uint32_t kRounds = 0, kStatus = 1, kWrong = 2, kLongest = 3;

__device__ uint64_t word_of(uint64_t round, uint32_t i) { return round * kWords + i; }

/// One warp of PE 0.
__global__ void communicate(Context ctx, Memory m) {
  const uint32_t lane = threadIdx.x;
  const uint64_t start = now_ns();
  uint64_t last = start;
  uint64_t wrong = 0;
  uint64_t longest = 0;
  Status status = Status::kOk;
  const auto attempt = [&](Status s) {
    if (status == Status::kOk) status = s;
  };
  for (uint64_t round = 1; status == Status::kOk; ++round) {
    for (uint32_t i = lane; i < kWords; i += 32) m.source[i] = word_of(round, i);
    attempt(put_signal(ctx, warp, m.data, m.source, kWords, Signal::set(m.counter, round, 1)));
    attempt(get(ctx, warp, m.back, m.data, kWords, 1));
    for (uint32_t i = lane; i < kWords; i += 32) wrong += m.back[i] != word_of(round, i) ? 1 : 0;
    uint64_t before = round - 1;
    if (lane == 0) {
      const Fetched<uint64_t> old = atomic_fetch_inc(ctx, m.sum, 1);
      attempt(old.status);
      before = old.value;
    }
    wrong += before != round - 1 ? 1 : 0;
    status = static_cast<Status>(__reduce_max_sync(~0u, static_cast<uint32_t>(status)));
    const uint64_t now = now_ns();
    longest = now - last > longest ? now - last : longest;
    last = now;
    const bool over = load_acquire<Reach::kSystem>(m.end) != 0 || now - start > kLimitNs;
    if (lane == 0 && status == Status::kOk) store_release<Reach::kSystem>(m.result, round);
    if (__any_sync(~0u, over)) break;
  }
  const bool any_wrong = __any_sync(~0u, wrong != 0);
  if (lane == 0) {
    m.result[kStatus] = static_cast<uint64_t>(status);
    m.result[kWrong] = any_wrong ? 1 : 0;
    m.result[kLongest] = longest;
  }
}

__global__ void release(Context ctx, Memory m) {
  (void)signal(ctx, Signal::set(m.end, 1, 0));
  (void)quiet(ctx);
}

/// True when every thread of `pid` is stopped.
bool all_stopped(pid_t pid) {
  const std::string tasks = "/proc/" + std::to_string(pid) + "/task";
  DIR* const folder = opendir(tasks.c_str());
  if (folder == nullptr) return false;
  bool all = true;
  for (const dirent* entry = readdir(folder); entry != nullptr; entry = readdir(folder)) {
    if (entry->d_name[0] == '.') continue;
    std::ifstream stat(tasks + "/" + entry->d_name + "/stat");
    std::string line;
    std::getline(stat, line);
    const size_t behind_name = line.rfind(')');
    all = all && behind_name + 2 < line.size() && line[behind_name + 2] == 'T';
  }
  closedir(folder);
  return all;
}

template <class Condition>
bool wait_for(const Condition& condition) {
  for (const auto end = Clock::now() + kLimit; Clock::now() < end;) {
    if (condition()) return true;
    std::this_thread::sleep_for(1ms);
  }
  return false;
}

/// One PE and what it knows of the other.
class Pe {
 public:
  Pe(Bootstrap& group, const Config& config)
      : runtime_(std::make_unique<bootstrap::BorrowedBootstrap>(group), config) {
    memory_ = {runtime_.allocate<uint64_t>(kWords), runtime_.allocate<uint64_t>(kWords),
               runtime_.allocate<uint64_t>(kWords), runtime_.allocate<uint64_t>(1),
               runtime_.allocate<uint64_t>(1),      runtime_.allocate<uint64_t>(1),
               runtime_.allocate<uint64_t>(4)};
  }

  int run(pid_t other);

 private:
  uint64_t read(const uint64_t* word) const {
    uint64_t value = 0;
    runtime_.copy_out(&value, word, sizeof(value));
    return value;
  }
  void expect(bool condition, const char* what, uint64_t got) {
    if (condition) return;
    std::printf("  PE %d expected: %s (got %llu)\n", runtime_.my_pe(), what,
                static_cast<unsigned long long>(got));
    failed_ = true;
  }
  void watch_while_stopped(pid_t other, const uint64_t* progress);
  void check_target();
  void check_initiator();

  Runtime runtime_;
  Memory memory_{};
  bool failed_ = false;
};

/// Host threads of a process, stopped while this lives.
class Stopped {
 public:
  explicit Stopped(pid_t pid) : pid_(pid) { kill(pid_, SIGSTOP); }
  ~Stopped() { kill(pid_, SIGCONT); }
  Stopped(const Stopped&) = delete;
  Stopped& operator=(const Stopped&) = delete;

 private:
  pid_t pid_;
};

void Pe::watch_while_stopped(pid_t other, const uint64_t* progress) {
  expect(wait_for([&] { return read(progress) != 0; }), "transfers to begin", 0);
  uint64_t before = 0;
  uint64_t after = 0;
  {
    const Stopped stopped(other);
    expect(wait_for([&] { return all_stopped(other); }), "all threads to stop", 0);
    before = read(progress);
    std::this_thread::sleep_for(kPause);
    after = read(progress);
    expect(all_stopped(other), "all threads stopped all the time", 0);
  }
  expect(after >= before + 100, "100 rounds while they were stopped", after - before);
  std::printf("  PE %d stopped all host threads of PE %d for a second: %llu rounds\n",
              runtime_.my_pe(), 1 - runtime_.my_pe(),
              static_cast<unsigned long long>(after - before));
}

void Pe::check_target() {
  const uint64_t rounds = read(memory_.counter);
  expect(read(memory_.sum) == rounds, "as many atomics as rounds", read(memory_.sum));
  uint64_t data[kWords];
  runtime_.copy_out(data, memory_.data, sizeof(data));
  for (uint32_t i = 0; i < kWords; ++i) {
    if (data[i] != rounds * kWords + i) return expect(false, "the last round's data", data[i]);
  }
}

void Pe::check_initiator() {
  uint64_t result[4];
  runtime_.copy_out(result, memory_.result, sizeof(result));
  expect(result[kStatus] == static_cast<uint64_t>(Status::kOk), "status ok", result[kStatus]);
  expect(result[kWrong] == 0, "every answer right", result[kWrong]);
  expect(result[kLongest] < kLongestNs, "no round of 0.5 s", result[kLongest]);
  std::printf("  %llu rounds over %s (%s), the longest %llu us\n",
              static_cast<unsigned long long>(result[kRounds]), runtime_.transport(),
              runtime_.nic().c_str(), static_cast<unsigned long long>(result[kLongest] / 1000));
}

int Pe::run(pid_t other) {
  const bool first = runtime_.my_pe() == 0;
  std::optional<Launch> running;
  if (first)
    running = launch({.blocks = 1, .threads = 32}, communicate, runtime_.context(), memory_);
  runtime_.barrier();
  if (!first) watch_while_stopped(other, memory_.counter);
  runtime_.barrier();
  if (first) watch_while_stopped(other, memory_.result);
  runtime_.barrier();
  if (!first) launch({}, release, runtime_.context(), memory_).wait();
  if (first) running->wait();
  runtime_.barrier();
  first ? check_initiator() : check_target();
  runtime_.check();
  std::fflush(stdout);
  runtime_.barrier();
  return failed_ ? 1 : 0;
}

int run_pe(Bootstrap& group) {
  Config config = Config::from_environment(environ);
  if (config.transport == TransportKind::kAuto) config.transport = TransportKind::kIbgda;
  const std::vector<pid_t> pids = gather(group, getpid());
  return Pe(group, config).run(pids[static_cast<size_t>(1 - group.rank())]);
}

}  // namespace

int main() {
  std::printf("transfers go on while every host thread of a PE is stopped\n");
  try {
    bootstrap::run_processes(2, run_pe, {.job = 120s});
  } catch (const std::exception& error) {
    std::printf("  %s\n0 passed, 1 failed\n", error.what());
    return 1;
  }
  std::printf("1 passed, 0 failed\n");
  return 0;
}
