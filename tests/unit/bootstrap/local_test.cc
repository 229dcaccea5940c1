// SPDX-License-Identifier: Apache-2.0
//
// One PE alone and PEs as threads: what the collectives return, and what they say when ranks
// differ, leave or lag.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <numeric>
#include <stdexcept>
#include <thread>

#include "base/poll.h"
#include "bootstrap/bootstraps.h"
#include "bootstrap/star.h"
#include "tests/support/error_of.h"

namespace peal::bootstrap {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using SteadyClock = std::chrono::steady_clock;

TEST(Single, IsRankZeroOfOne) {
  const auto group = make_single();
  EXPECT_EQ(group->rank(), 0);
  EXPECT_EQ(group->size(), 1);
}

TEST(Single, GathersItsOwnBytesAndNeverWaits) {
  const auto group = make_single();
  EXPECT_EQ(gather(*group, 42), std::vector<int>{42});
  for (int i = 0; i < 1000; ++i) group->barrier();
}

TEST(Single, RefusesRoomOfAnotherSize) {
  const auto group = make_single();
  std::array<std::byte, 8> mine{};
  std::array<std::byte, 12> all{};
  const Error error = error_of([&] { group->allgather(mine, all); });
  EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
  EXPECT_TRUE(contains(error, "needs 8 bytes of room, not 12")) << error.what();
  group->barrier();  // nothing was sent: the group is whole
}

TEST(Single, RefusesMoreThanAMessageCarries) {
  const auto group = make_single();
  std::vector<std::byte> huge((std::size_t{256} << 20) + 1);
  EXPECT_EQ(error_of([&] { group->allgather(huge, huge); }).code(), ErrorCode::kInvalidArgument);
}

class Threads : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Counts, Threads, testing::Values(1, 2, 3, 8));

TEST_P(Threads, GatherInRankOrderInManyRounds) {
  run_threads(GetParam(), [](Bootstrap& group) {
    ASSERT_EQ(group.size(), GetParam());
    for (int round = 0; round < 100; ++round) {
      const std::vector<int> all = gather(group, 1000 * round + group.rank());
      for (int r = 0; r < group.size(); ++r)
        ASSERT_EQ(all[static_cast<std::size_t>(r)], 1000 * round + r);
    }
  });
}

TEST_P(Threads, LeaveABarrierOnlyWhenAllHaveEntered) {
  std::atomic<int> entered{0};
  run_threads(GetParam(), [&entered](Bootstrap& group) {
    for (int round = 1; round <= 50; ++round) {
      entered.fetch_add(1);
      group.barrier();
      EXPECT_GE(entered.load(), round * group.size());
      group.barrier();
    }
  });
  EXPECT_EQ(entered.load(), 50 * GetParam());
}

TEST_P(Threads, GatherMoreThanASocketHolds) {
  run_threads(GetParam(), [](Bootstrap& group) {
    constexpr std::size_t kBytes = 1 << 20;
    const std::vector<std::byte> mine(kBytes, std::byte(group.rank() + 1));
    std::vector<std::byte> all(kBytes * static_cast<std::size_t>(group.size()));
    group.allgather(mine, all);
    for (std::size_t i = 0; i < all.size(); i += 4093)
      ASSERT_EQ(all[i], std::byte(i / kBytes + 1)) << "at " << i;
  });
}

TEST_P(Threads, GatherNothingAndInPlace) {
  run_threads(GetParam(), [](Bootstrap& group) {
    group.allgather({}, {});
    std::vector<int> all(static_cast<std::size_t>(group.size()), -1);
    const auto rank = static_cast<std::size_t>(group.rank());
    all[rank] = group.rank();
    group.allgather(std::as_bytes(std::span(all).subspan(rank, 1)),
                    std::as_writable_bytes(std::span(all)));
    std::vector<int> expected(all.size());
    std::iota(expected.begin(), expected.end(), 0);
    EXPECT_EQ(all, expected);
  });
}

TEST_P(Threads, HaveAConnectionBetweenRank0AndEveryOther) {
  run_threads(GetParam(), [](Bootstrap& group) {
    const std::vector<int> sockets = group.connections();
    ASSERT_EQ(sockets.size(), static_cast<std::size_t>(group.size()));
    for (int rank = 0; rank < group.size(); ++rank) {
      const bool connected = rank != group.rank() && (rank == 0 || group.rank() == 0);
      EXPECT_EQ(sockets[static_cast<std::size_t>(rank)] >= 0, connected) << rank;
    }
    group.barrier();
  });
}

// Hazard: rank 0 was in a collective call, read the end of a connection and closed it before
// somebody else polled that: the loss was told to nobody, and the number became another
// descriptor's.
TEST(Star, LeavesAConnectionWhoseEndItHasReadForOthersToPoll) {
  run_threads(3, [](Bootstrap& group) {
    if (group.rank() == 1) return;
    if (group.rank() == 2) {
      EXPECT_EQ(error_of([&] { group.barrier(); }).code(), ErrorCode::kPeerLost);
      return;
    }
    std::vector<int> before = group.connections();
    before[2] = -1;
    const Error lost = error_of([&] { group.barrier(); });
    expect_error(lost, ErrorCode::kPeerLost, {"rank 1 of 3 died or disconnected"});
    EXPECT_EQ(group.connections()[1], before[1]);
    EXPECT_EQ(hung_up(before), std::vector<int>{1});
  });
}

TEST(Star, NamesHostsWhereTheyAreKnown) {
  run_threads(4, [](Bootstrap& group) {
    group.name_hosts({"node0", "node1", "node1", "node2"});
    group.barrier();
    if (group.rank() == 3) return;
    const Error lost = error_of([&] { group.barrier(); });
    expect_error(lost, ErrorCode::kPeerLost,
                 {"barrier #1: rank 3 of 4 on node2 died or disconnected"});
  });
  std::promise<void> heard;
  std::shared_future<void> all_heard = heard.get_future().share();
  run_threads(
      4,
      [&](Bootstrap& group) {
        group.name_hosts({"node0", "node1", "node1", "node2"});
        if (group.rank() != 0) return all_heard.wait();
        const Error late = error_of([&] { group.barrier(); });
        expect_error(late, ErrorCode::kTimeout,
                     {"barrier #0: ranks 1-3 of 4 on node1, node2 did not arrive"});
        heard.set_value();
      },
      milliseconds(200));
}

TEST(RunThreads, RefusesNoRanksAndUnboundedDeadlines) {
  const auto nothing = [](Bootstrap&) {};
  EXPECT_EQ(error_of([&] { run_threads(0, nothing); }).code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(error_of([&] { run_threads(2, nothing, milliseconds(0)); }).code(),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(error_of([&] { run_threads(2, nothing, milliseconds(-1)); }).code(),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(error_of([&] { run_threads(2, nothing, milliseconds::max()); }).code(),
            ErrorCode::kInvalidArgument);
}

TEST(RunThreads, NamesTheRankThatThrewAndReleasesTheOthers) {
  const Error error = error_of([&] {
    run_threads(
        3,
        [](Bootstrap& group) {
          group.barrier();
          if (group.rank() == 1) throw std::runtime_error("out of cheese");
          group.barrier();
        },
        seconds(60));
  });
  EXPECT_EQ(error.code(), ErrorCode::kPeerLost);
  EXPECT_TRUE(contains(error, "rank 1 of 3: out of cheese")) << error.what();
  EXPECT_TRUE(contains(error, "rank 0 of 3: barrier #1: rank 1 of 3 died or disconnected"))
      << error.what();
  EXPECT_TRUE(contains(error, "rank 2 of 3: barrier #1: rank 1 of 3 died or disconnected"))
      << error.what();
}

// Finalize waits as long as the others work, deadline or not.
TEST(RunThreads, TheEndWaitsOnForAsLongAsItIsAsked) {
  run_threads(
      3,
      [](Bootstrap& group) {
        static std::atomic<int> asked{0};
        if (group.rank() == 2) {
          while (asked < 4) std::this_thread::yield();  // four deadlines of the others
          group.end([] { return true; });
        } else {
          group.end([] { return ++asked > 0; });
        }
      },
      milliseconds(50));
}

TEST(RunThreads, TheEndIsOverWhereNobodyGoesOn) {
  std::promise<void> refused;
  const Error error = error_of([&] {
    run_threads(
        2,
        [&](Bootstrap& group) {
          if (group.rank() == 1) return refused.get_future().wait();
          const Error at_end = error_of([&] { group.end([] { return false; }); });
          refused.set_value();
          throw at_end;
        },
        milliseconds(50));
  });
  EXPECT_EQ(error.code(), ErrorCode::kTimeout);
  EXPECT_TRUE(contains(error, "end of the job: rank 1 of 2 did not arrive")) << error.what();
}

TEST(RunThreads, WhoQuitsTellsTheOthersHow) {
  for (const int who : {0, 1, 2}) {
    run_threads(3, [&](Bootstrap& group) {
      group.barrier();
      if (group.rank() == who) return group.quit("called exit(3)");
      const Error error = error_of([&] { group.barrier(); });
      EXPECT_EQ(error.code(), ErrorCode::kPeerLost);
      EXPECT_TRUE(contains(error, fmt::format("rank {} of 3 called exit(3)", who))) << error.what();
    });
  }
}

TEST(RunThreads, KeepsTheCodeOfTheCause) {
  const Error error = error_of([&] {
    run_threads(2, [](Bootstrap& group) {
      if (group.rank() == 1) fail(ErrorCode::kOutOfMemory, "heap of 5 bytes");
      group.barrier();
    });
  });
  EXPECT_EQ(error.code(), ErrorCode::kOutOfMemory);
  EXPECT_TRUE(contains(error, "rank 1 of 2: heap of 5 bytes")) << error.what();
}

// Runs three threads of which `late` skips the barrier until the others have given up; their errors
// by rank.
std::vector<Error> errors_without(int late, milliseconds deadline) {
  std::vector<Error> errors(3, {ErrorCode::kInternal, "no error"});
  std::promise<void> others_done;
  std::atomic<int> done{0};
  run_threads(
      3,
      [&](Bootstrap& group) {
        if (group.rank() == late) {
          others_done.get_future().wait_for(seconds(60));
        } else {
          errors[static_cast<std::size_t>(group.rank())] = error_of([&] { group.barrier(); });
          if (done.fetch_add(1) == 1) others_done.set_value();
        }
      },
      deadline);
  return errors;
}

TEST(RunThreads, NamesTheLateRankOnEveryOther) {
  milliseconds deadline;
  const auto told = [&] {
    return "barrier #0: rank 2 of 3 did not arrive within " + name_time(deadline);
  };
  const std::vector<Error> errors = with_more_time(
      [&](int times) {
        deadline = times * milliseconds(500);
        const auto begin = SteadyClock::now();
        auto without = errors_without(2, deadline);
        EXPECT_GE(SteadyClock::now() - begin, deadline);
        return without;
      },
      [&](const auto& of) { return contains(of[0], told()) && contains(of[1], told()); });
  for (const std::size_t r : {0U, 1U}) {
    EXPECT_EQ(errors[r].code(), ErrorCode::kTimeout);
    EXPECT_TRUE(contains(errors[r], told())) << errors[r].what();
  }
}

TEST(RunThreads, NamesRankZeroWhenItIsLate) {
  const std::vector<Error> errors = errors_without(0, milliseconds(500));
  for (const std::size_t r : {1U, 2U}) {
    EXPECT_EQ(errors[r].code(), ErrorCode::kTimeout);
    EXPECT_TRUE(contains(errors[r], "barrier #0: rank 0 of 3 did not arrive within 500 ms"))
        << errors[r].what();
  }
}

TEST(RunThreads, TellsALateRankWhyTheOthersAreGone) {
  Error late{ErrorCode::kInternal, "no error"};
  std::promise<void> root_done;
  run_threads(
      2,
      [&](Bootstrap& group) {
        if (group.rank() == 0) {
          error_of([&] { gather(group, 1); });
          root_done.set_value();
        } else {
          root_done.get_future().wait_for(seconds(60));
          late = error_of([&] { gather(group, 1); });
        }
      },
      milliseconds(100));
  EXPECT_EQ(late.code(), ErrorCode::kTimeout);
  EXPECT_TRUE(contains(late, "allgather #0 of 4 bytes: rank 1 of 2 did not arrive within 100 ms"))
      << late.what();
}

TEST(RunThreads, NamesAMismatchOfKindsOnEveryRank) {
  std::vector<Error> errors(3, {ErrorCode::kInternal, ""});
  run_threads(3, [&](Bootstrap& group) {
    group.barrier();
    errors[static_cast<std::size_t>(group.rank())] = error_of([&] {
      if (group.rank() == 2) {
        gather(group, 0);
      } else {
        group.barrier();
      }
    });
  });
  for (const Error& error : errors) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_TRUE(contains(error, "rank 2 of 3 is in allgather #1 of 4 bytes, rank 0 in barrier #1"))
        << error.what();
  }
}

TEST(RunThreads, NamesAMismatchOfBytesOnEveryRank) {
  std::vector<Error> errors(2, {ErrorCode::kInternal, ""});
  run_threads(2, [&](Bootstrap& group) {
    const std::size_t bytes = group.rank() == 0 ? 8 : 16;
    const std::vector<std::byte> mine(bytes);
    std::vector<std::byte> all(2 * bytes);
    errors[static_cast<std::size_t>(group.rank())] = error_of([&] { group.allgather(mine, all); });
  });
  for (const Error& error : errors) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_TRUE(contains(
        error, "rank 1 of 2 is in allgather #0 of 16 bytes, rank 0 in allgather #0 of 8 bytes"))
        << error.what();
  }
}

TEST(RunThreads, ABrokenGroupThrowsAtOnce) {
  run_threads(2, [&](Bootstrap& group) {
    error_of([&] { group.rank() == 0 ? group.barrier() : static_cast<void>(gather(group, 0)); });
    for (int i = 0; i < 3; ++i) {
      const Error again = error_of([&] { group.barrier(); });
      EXPECT_EQ(again.code(), ErrorCode::kInvalidArgument);
      EXPECT_TRUE(contains(again, "the group is broken since: collective calls do not match"))
          << again.what();
    }
  });
}

}  // namespace
}  // namespace peal::bootstrap
