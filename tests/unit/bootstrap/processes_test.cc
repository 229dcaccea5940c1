// SPDX-License-Identifier: Apache-2.0
//
// PEs as forked processes: they gather; and however one of them ends, the parent names it and
// nobody waits for long. Assertions of a child count as its exit code: EXPECT would not reach the
// parent.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <stdexcept>

#include "bootstrap/bootstraps.h"
#include "bootstrap/star.h"
#include "tests/support/error_of.h"

namespace peal::bootstrap {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Deadlines no test reaches unless it says so: what ends earlier was noticed, not waited for.
constexpr ProcessLimits kPatient{.deadline = seconds(60), .job = seconds(120)};

class Processes : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Counts, Processes, testing::Values(1, 2, 8));

TEST_P(Processes, GatherAcrossAddressSpaces) {
  const pid_t parent = getpid();
  run_processes(GetParam(), [parent](Bootstrap& group) {
    if (getpid() == parent || group.size() != GetParam()) return 2;
    for (int round = 0; round < 50; ++round) {
      const std::vector<int> all = gather(group, 100 * round + group.rank());
      for (int r = 0; r < group.size(); ++r) {
        if (all[static_cast<std::size_t>(r)] != 100 * round + r) return 3;
      }
      group.barrier();
    }
    return 0;
  });
}

TEST(RunProcesses, NamesNonzeroExits) {
  const Error error = error_of(
      [] { run_processes(3, [](Bootstrap& group) { return group.rank() == 0 ? 0 : 7; }); });
  EXPECT_EQ(error.code(), ErrorCode::kPeerLost);
  EXPECT_STREQ(error.what(), "rank 1 of 3 exited with code 7; rank 2 of 3 exited with code 7");
}

TEST(RunProcesses, DoesNotTakeExitCode256ForSuccess) {
  const Error error = error_of([] { run_processes(1, [](Bootstrap&) { return 256; }); });
  EXPECT_STREQ(error.what(), "rank 0 of 1 exited with code 1");
}

TEST(RunProcesses, BringsHomeWhatAChildThrew) {
  const Error error = error_of([] {
    run_processes(2, [](Bootstrap& group) {
      if (group.rank() == 1) throw std::runtime_error("out of cheese");
      return 0;
    });
  });
  EXPECT_STREQ(error.what(), "rank 1 of 2: out of cheese");
}

// Rank `victim` kills itself before the third barrier; what the parent and the survivors say.
void expect_named(int victim, const std::string& survivor, const std::string& lost) {
  const Error error = error_of([victim] {
    run_processes(
        4,
        [victim](Bootstrap& group) {
          group.barrier();
          group.barrier();
          if (group.rank() == victim) raise(SIGKILL);
          group.barrier();
          return 0;
        },
        kPatient);
  });
  EXPECT_EQ(error.code(), ErrorCode::kPeerLost);
  EXPECT_TRUE(contains(error, "rank " + std::to_string(victim) + " of 4 was killed by signal 9"))
      << error.what();
  EXPECT_TRUE(
      contains(error, survivor + " of 4: barrier #2: " + lost + " of 4 died or disconnected"))
      << error.what();
}

TEST(RunProcesses, NamesAChildThatDiesBeforeACollective) { expect_named(2, "rank 1", "rank 2"); }

TEST(RunProcesses, NamesRankZeroThatDies) { expect_named(0, "rank 3", "rank 0"); }

TEST(RunProcesses, NamesAChildThatDiesInsideACollective) {
  const auto attempt = [](int times) {
    return error_of([=] {
      run_processes(3,
                    [](Bootstrap& group) {
                      // Rank 1 sits in the barrier, rank 2 never comes: the alarm ends rank 1
                      // there.
                      if (group.rank() == 1) alarm(1);
                      if (group.rank() == 2) {
                        pause();
                      }
                      group.barrier();
                      return 0;
                    },
                    {.deadline = seconds(60), .job = times * seconds(4)});
    });
  };
  const Error error = with_more_time(attempt, [](const Error& of) {
    return contains(of, "rank 0 of 3: barrier #0: rank 1 of 3 died") && contains(of, "signal 14");
  });
  EXPECT_EQ(error.code(), ErrorCode::kTimeout);
  EXPECT_TRUE(contains(error, "rank 0 of 3: barrier #0: rank 1 of 3 died or disconnected"))
      << error.what();
  EXPECT_TRUE(contains(error, "rank 1 of 3 was killed by signal 14")) << error.what();
  EXPECT_TRUE(contains(error, "rank 2 of 3 did not end within ")) << error.what();
}

TEST(RunProcesses, NamesAChildThatExitsEarly) {
  const Error error = error_of([] {
    run_processes(
        2,
        [](Bootstrap& group) {
          if (group.rank() == 1) _exit(0);
          group.barrier();
          return 0;
        },
        kPatient);
  });
  EXPECT_STREQ(error.what(), "rank 0 of 2: barrier #0: rank 1 of 2 died or disconnected");
}

TEST(RunProcesses, KillsWhatOutlivesTheJob) {
  milliseconds job;
  const auto told = [&] {
    return "rank 1 of 2 did not end within " + name_time(job) + " and was killed";
  };
  const auto attempt = [&](int times) {
    job = times * milliseconds(1500);
    return error_of([&] {
      run_processes(2,
                    [](Bootstrap& group) {
                      if (group.rank() == 1) {
                        signal(SIGTERM, SIG_IGN);
                        for (;;) pause();
                      }
                      return 0;
                    },
                    {.deadline = seconds(60), .job = job});
    });
  };
  const Error error = with_more_time(attempt, [&](const Error& of) { return of.what() == told(); });
  EXPECT_EQ(error.code(), ErrorCode::kTimeout);
  EXPECT_EQ(error.what(), told());
}

TEST(RunProcesses, NamesTheLateRankAtTheDeadline) {
  milliseconds deadline;
  const auto told_by = [&](const char* rank) {
    return rank + (" of 3: barrier #0: rank 1 of 3 did not arrive within " + name_time(deadline));
  };
  const auto attempt = [&](int times) {
    deadline = times * milliseconds(1100);
    return error_of([&] {
      run_processes(3,
                    [](Bootstrap& group) {
                      if (group.rank() == 1) {
                        pause();
                      }
                      group.barrier();
                      return 0;
                    },
                    {.deadline = deadline, .job = times * seconds(3)});
    });
  };
  const Error error = with_more_time(attempt, [&](const Error& of) {
    return contains(of, told_by("rank 0")) && contains(of, told_by("rank 2"));
  });
  EXPECT_EQ(error.code(), ErrorCode::kTimeout);
  EXPECT_TRUE(contains(error, told_by("rank 0"))) << error.what();
  EXPECT_TRUE(contains(error, told_by("rank 2"))) << error.what();
}

TEST(RunProcesses, TellsTheOthersOfAnAbort) {
  for (const int culprit : {0, 2}) {
    const Error error = error_of([culprit] {
      run_processes(
          3,
          [culprit](Bootstrap& group) {
            group.barrier();
            if (group.rank() == culprit) {
              if (freopen("/dev/null", "w", stderr) == nullptr) return 9;
              group.abort("the heap is gone");
            }
            group.barrier();
            return 0;
          },
          kPatient);
    });
    const std::string who = "rank " + std::to_string(culprit) + " of 3";
    EXPECT_TRUE(contains(error, who + " exited with code 1")) << error.what();
    EXPECT_TRUE(contains(error, "rank 1 of 3: ")) << error.what();
    EXPECT_TRUE(contains(error, who + " aborted: the heap is gone")) << error.what();
  }
}

TEST(RunProcesses, RefusesUnboundedLimits) {
  const auto nothing = [](Bootstrap&) { return 0; };
  EXPECT_EQ(error_of([&] { run_processes(2, nothing, {.deadline = milliseconds(0)}); }).code(),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(error_of([&] { run_processes(2, nothing, {.job = milliseconds(0)}); }).code(),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(error_of([&] { run_processes(-1, nothing); }).code(), ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace peal::bootstrap
