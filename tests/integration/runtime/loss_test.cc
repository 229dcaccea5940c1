// SPDX-License-Identifier: Apache-2.0
//
// A PE that dies: whatever the others are doing ends by that, and not by a deadline, with an error
// that names it.
//
// PEs are forked processes. A survivor that sees what it should returns 0, so the only failure
// that run_processes reports is the death itself.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/files.h"
#include "tests/support/injector.h"
#include "tests/support/job.h"
#include "tests/support/require.h"

namespace peal::api_test {
namespace {

using std::chrono::seconds;
using std::chrono::steady_clock;

constexpr int kVictim = 1;

/// Survivors that wait for one another: the end of one is none that the others may take for the
/// victim's.
class Survivors {
 public:
  explicit Survivors(int count)
      : count_(count),
        ended_(static_cast<std::atomic<int>*>(mmap(nullptr, sizeof(std::atomic<int>),
                                                   PROT_READ | PROT_WRITE,
                                                   MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {}
  ~Survivors() { munmap(ended_, sizeof(std::atomic<int>)); }
  Survivors(const Survivors&) = delete;
  Survivors& operator=(const Survivors&) = delete;

  /// At the end of one, good or bad.
  void meet() {
    ++*ended_;
    const auto end = steady_clock::now() + seconds(60);
    while (*ended_ < count_ && steady_clock::now() < end) std::this_thread::yield();
  }

 private:
  int count_;
  std::atomic<int>* ended_;  // across fork()
};

/// Runs `count` PEs of which one dies after `before`; the others go through `after`, which throws
/// when it does not see what it should.
void lose_one(int count, const std::function<void(Bootstrap&)>& life) {
  std::string text = "no error";
  Survivors survivors(count - 1);
  const auto whole_life = [&](Bootstrap& group) {
    try {
      life(group);
    } catch (...) {
      survivors.meet();
      throw;
    }
    survivors.meet();
    return 0;
  };
  try {
    bootstrap::run_processes(count, whole_life, {.deadline = seconds(60), .job = seconds(200)});
  } catch (const Error& error) {
    text = error.what();
  }
  EXPECT_EQ(text, fmt::format("rank {} of {} exited with code 3", kVictim, count));
}

void require_names_victim(const std::string& text) {
  require(text.find(fmt::format("rank {}", kVictim)) != std::string::npos ||
              text.find(fmt::format("PE {}", kVictim)) != std::string::npos,
          text);
}

template <class Call>
void require_error(Call&& call) {
  try {
    call();
  } catch (const Error& error) {
    require(error.code() == ErrorCode::kPeerLost, error.what());
    require_names_victim(error.what());
    return;
  }
  require(false, "an error that names the victim");
}

[[noreturn]] void die() { _exit(3); }

TEST(Loss, BeforeTheRuntimeIsNamedByItsConstructor) {
  lose_one(3, [](Bootstrap& group) {
    if (group.rank() == kVictim) die();
    require_error([&] { const Runtime pe = start(group); });
  });
}

TEST(Loss, BeforeACollectiveCallIsNamedByIt) {
  lose_one(3, [](Bootstrap& group) {
    Runtime pe = start(group);
    if (group.rank() == kVictim) die();
    require_error([&] { pe.malloc(64); });
    require_error([&] { pe.barrier(); });
    require_error([&] { (void)pe.make_context(); });
  });
}

using Work = Status (*)(const Context&, uint64_t*);

Status by_wait_until(const Context& ctx, uint64_t* data) {
  return wait_until(ctx, data, Compare::kEq, 99);
}
Status by_wait_any(const Context& ctx, uint64_t* data) {
  return wait_until_any(ctx, WaitSet<uint64_t>{data, 4}, Compare::kEq, 99).status;
}
Status by_sync_all(const Context& ctx, uint64_t*) { return sync_all(ctx); }
Status by_barrier_all(const Context& ctx, uint64_t*) { return barrier_all(ctx); }
Status by_puts(const Context& ctx, uint64_t* data) {
  for (;;) {
    Status status = put(ctx, data, data + 512, 512, kVictim);
    if (status == Status::kOk) status = quiet(ctx);
    if (status != Status::kOk) return status;
  }
}
Status by_puts_nobody_waits_for(const Context& ctx, uint64_t* data) {
  for (;;) {
    const Status status = put_nbi(ctx, data, data + 512, 512, kVictim).status;
    if (status != Status::kOk) return status;
  }
}
Status by_gets(const Context& ctx, uint64_t* data) {
  for (;;) {
    const Status status = get(ctx, data, data + 512, 512, kVictim);
    if (status != Status::kOk) return status;
  }
}
Status by_atomics(const Context& ctx, uint64_t* data) {
  for (;;) {
    const Status status = atomic_fetch_inc(ctx, data, kVictim).status;
    if (status != Status::kOk) return status;
  }
}

PEAL_KERNEL work_on(Status* ended, Context ctx, Work work, uint64_t* data) {
  const Status status = work(ctx, data);
  if (block_in_grid() == 0 && thread_in_block() == 0) *ended = status;
}

struct NamedWork {
  const char* name;
  Work work;
};
std::string name_of(const testing::TestParamInfo<NamedWork>& info) { return info.param.name; }
constexpr NamedWork kWork[] = {{"wait_until", by_wait_until},
                               {"wait_until_any", by_wait_any},
                               {"put_and_quiet", by_puts},
                               {"put_nbi", by_puts_nobody_waits_for},
                               {"get", by_gets},
                               {"fetching_atomic", by_atomics}};
constexpr NamedWork kMeetings[] = {{"sync_all", by_sync_all}, {"barrier_all", by_barrier_all}};

class LossDuring : public testing::TestWithParam<NamedWork> {};
INSTANTIATE_TEST_SUITE_P(Work, LossDuring, testing::ValuesIn(kWork), name_of);
INSTANTIATE_TEST_SUITE_P(Meeting, LossDuring, testing::ValuesIn(kMeetings), name_of);
class LossInManyLanesDuring : public testing::TestWithParam<NamedWork> {};
INSTANTIATE_TEST_SUITE_P(Work, LossInManyLanesDuring, testing::ValuesIn(kWork), name_of);

/// The kernel ends with an error, the host says whose end it was.
void outlive(Runtime& pe, Work work, uint64_t* data, const Grid& grid) {
  Status ended = Status::kOk;
  launch(grid, work_on, &ended, pe.context(), work, data).wait();
  require(ended != Status::kOk && ended != Status::kTimeout, to_string(ended));
  // The NIC may report it before the process is seen to have ended: either names the PE.
  const auto end = steady_clock::now() + seconds(60);
  while (pe.failure().status != Status::kPeerLost && steady_clock::now() < end) {
    std::this_thread::yield();
  }
  const Failure failure = pe.failure();
  require(failure.status == Status::kPeerLost, failure.text);
  require(failure.pe == kVictim, failure.text);
  require_names_victim(failure.text);
  require_error([&] { pe.check(); });
}

void lose_one_during(Work work, const Grid& grid) {
  lose_one(3, [&](Bootstrap& group) {
    Runtime pe = start(group);
    auto* const data = pe.allocate<uint64_t>(1024);
    pe.barrier();
    if (group.rank() == kVictim) die();
    outlive(pe, work, data, grid);
  });
}

TEST_P(LossDuring, EndsItAndIsNamed) { lose_one_during(GetParam().work, {}); }
TEST_P(LossInManyLanesDuring, EndsItInEachAndIsNamed) {
  lose_one_during(GetParam().work, {.blocks = 4, .threads = 40});
}

PEAL_KERNEL exchange_with_victim(Status* ended, Context ctx, uint64_t* data, uint64_t last) {
  for (uint64_t round = 1; round <= last; ++round) {
    *ended = put_signal(ctx, data, data + 512, 100, Signal::set(data + 511, round, kVictim));
    if (*ended == Status::kOk && round < last) *ended = barrier_all(ctx);
    if (*ended == Status::kOk) *ended = quiet(ctx);
    if (*ended != Status::kOk) return;
  }
}

TEST(Loss, InTheMiddleOfTrafficByASignalIsNoticed) {
  std::string text = "no error";
  try {
    bootstrap::run_processes(
        3,
        [](Bootstrap& group) {
          Runtime pe = start(group);
          auto* const data = pe.allocate<uint64_t>(1024);
          Status ended = Status::kOk;
          const uint64_t rounds = pe.my_pe() == kVictim ? 50 : 1'000'000;
          launch({}, exchange_with_victim, &ended, pe.context(), data, rounds).wait();
          if (pe.my_pe() == kVictim) raise(SIGKILL);
          require(ended != Status::kOk && ended != Status::kTimeout, to_string(ended));
          require_names_victim(pe.failure().text);
          return 0;
        },
        {.deadline = seconds(60), .job = seconds(200)});
  } catch (const Error& error) {
    text = error.what();
  }
  EXPECT_EQ(text, "rank 1 of 3 was killed by signal 9 (Killed)");
}

/// Hazard: a call of a team, which is to no PE, was told as "queue error", and not that the PE
/// which it was waiting for had left.
TEST(Loss, IsToldInPlaceOfTheQueueErrorOfACallFromTheHost) {
  int ended[2];
  ASSERT_EQ(pipe(ended), 0);
  lose_one(2, [&](Bootstrap& group) {
    Config config = small_config();
    config.transport = TransportKind::kIbgda;
    Runtime pe = start(group, config);
    auto* const words = pe.allocate<uint64_t>(16);
    pe.barrier();
    char byte = 0;
    if (group.rank() == kVictim) {
      close(ended[1]);  // else it would wait for itself
      require(read(ended[0], &byte, 1) == 1, "the call of PE 0 has ended");
      die();
    }
    fault_test::Injector().inject("wqe=* fault=syndrome:0x15");
    const CallTicket call = pe.host_nbi().all_to_all(pe.world(), words + 8, words, 1);
    while (!call.test()) std::this_thread::yield();
    require(write(ended[1], &byte, 1) == 1, "PE 1 is to die");
    const auto end = steady_clock::now() + seconds(60);
    while (pe.lost_pes().empty() && steady_clock::now() < end) std::this_thread::yield();
    require_error([&] { call.wait(); });
  });
  close(ended[0]);
  close(ended[1]);
}

TEST(Loss, OfNobodyIsNotReportedAtTheEnd) {
  bootstrap::run_processes(4, [](Bootstrap& group) {
    Runtime pe = start(group);
    auto* const data = pe.allocate<uint64_t>(4);
    Status ended = Status::kTimeout;
    launch({}, work_on, &ended, pe.context(), Work{by_barrier_all}, data).wait();
    require(ended == Status::kOk, to_string(ended));
    require(pe.failure().status == Status::kOk, pe.failure().text);
    return 0;
  });
}

void close_standard_descriptors() {
  for (int fd = 0; fd <= STDERR_FILENO; ++fd) ::close(fd);
}

/// What this process has opened beside `before` may neither be printed into nor outlive exec().
void require_private_descriptors(const std::vector<std::string>& before) {
  for (const std::string& name : names_in("/proc/self/fd")) {
    std::error_code gone;  // the folder itself
    const std::string file = std::filesystem::read_symlink("/proc/self/fd/" + name, gone);
    if (gone || file == "/dev/null") continue;
    require(std::stoi(name) > STDERR_FILENO, name + " is " + file);
    if (std::ranges::find(before, name) != before.end()) continue;
    require(::fcntl(std::stoi(name), F_GETFD) == FD_CLOEXEC, name + " is for children: " + file);
  }
}

/// A program that was started without standard descriptors, or closes them as daemons do, and whose
/// log goes on: what took their place (the heap, a socket to another PE) was written over.
TEST(StandardDescriptors, ThatAreClosedAreNotTakenByTheJob) {
  const auto live = [](Bootstrap& group, TransportKind transport) {
    const std::vector<std::string> before = names_in("/proc/self/fd");
    close_standard_descriptors();
    Config config = small_config();
    config.heap_size = 4u << 20;
    config.transport = transport;
    Runtime pe = start(group, config);
    auto* const words = pe.allocate<uint64_t>(1000);
    require_private_descriptors(before);
    close_standard_descriptors();
    const auto own = pe.make_context({.queues_per_peer = 2});
    auto* const grown = pe.allocate<uint64_t>(config.heap_size / sizeof(uint64_t));
    require_private_descriptors(before);
    const std::string line(4096, 'x');
    for (int fd = 0; fd <= STDERR_FILENO; ++fd) {
      for (int i = 0; i < 16; ++i) static_cast<void>(!::write(fd, line.data(), line.size()));
    }
    pe.barrier();
    require(std::ranges::count(std::span(words, 1000), 0u) == 1000, "words of the heap");
    require(std::ranges::count(std::span(grown, 8192), 0u) == 8192, "words of the grown heap");
    Status ended = Status::kTimeout;
    launch({}, work_on, &ended, own.value(), Work{by_barrier_all}, words).wait();
    require(ended == Status::kOk, pe.failure().text);  // there is no stderr
    return 0;
  };
  for (const TransportKind transport : {TransportKind::kP2p, TransportKind::kIbgda}) {
    bootstrap::run_processes(2, [&](Bootstrap& group) { return live(group, transport); });
  }
}

TEST(SoftnicSettings, ThatAreMalformedAreNamed) {
  struct Setting {
    const char* name;
    const char* value;
  };
  for (const Setting& setting :
       {Setting{"PEAL_SOFTNIC_DIR", "relative"}, Setting{"PEAL_SOFTNIC_FABRIC", "../up"},
        Setting{"PEAL_SOFTNIC_TIMEOUT_SCALE", "-1"}}) {
    setenv(setting.name, setting.value, 1);
    testing::internal::CaptureStderr();
    const auto one = [](Bootstrap& group) {
      const Runtime pe = start(group);
      return 0;
    };
    EXPECT_THROW(bootstrap::run_processes(1, one), Error);
    unsetenv(setting.name);
    const std::string text = testing::internal::GetCapturedStderr();
    EXPECT_NE(text.find(std::string("softnic: ") + setting.name + "=\""), std::string::npos)
        << text;
  }
}

}  // namespace
}  // namespace peal::api_test

int main(int argc, char** argv) { return peal::api_test::run_tests(argc, argv); }
