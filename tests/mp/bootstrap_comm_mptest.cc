// SPDX-License-Identifier: Apache-2.0
//
// make_mpi in a program that initialised MPI itself: over the world and over communicators of its
// own, and with ranks that do not come. Runs under mpirun with four ranks.
#include <gtest/gtest.h>
#include <mpi.h>

#include <chrono>
#include <string>
#include <vector>

#include "bootstrap/bootstraps.h"
#include "bootstrap/star.h"
#include "tests/support/error_of.h"

namespace peal::bootstrap {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

int world_rank() {
  int rank = -1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

TEST(MpiComm, LeavesTheCallersMpiRunning) {
  {
    const auto group = make_mpi(nullptr, seconds(60));
    EXPECT_EQ(group->rank(), world_rank());
    group->barrier();
  }
  int finalized = 1;
  MPI_Finalized(&finalized);
  EXPECT_EQ(finalized, 0);
  EXPECT_EQ(MPI_Barrier(MPI_COMM_WORLD), MPI_SUCCESS);
}

TEST(MpiComm, FollowsASplitCommunicatorThatTheCallerFrees) {
  MPI_Comm half = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, world_rank() % 2, -world_rank(), &half);
  const auto group = make_mpi(&half, seconds(60));
  MPI_Comm_free(&half);
  ASSERT_EQ(group->size(), 2);
  const int parity = world_rank() % 2;
  EXPECT_EQ(gather(*group, world_rank()), (std::vector<int>{2 + parity, parity}));
}

TEST(MpiComm, KeepsSeveralGroupsApart) {
  const auto first = make_mpi(nullptr, seconds(60));
  const auto second = make_mpi(nullptr, seconds(60));
  // A message of the caller's with any tag must not meet one of ours.
  int token = 7;
  if (world_rank() == 1) MPI_Send(&token, 1, MPI_INT, 0, 0x7065, MPI_COMM_WORLD);
  for (int round = 0; round < 20; ++round) {
    EXPECT_EQ(gather(*first, round), std::vector<int>(4, round));
    EXPECT_EQ(gather(*second, -round), std::vector<int>(4, -round));
  }
  if (world_rank() == 0)
    MPI_Recv(&token, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/// What `attempt(communicator, deadline, meet)` throws on this rank; again with more time until
/// that is `as_wanted` on all ranks. All ranks meet once, where `attempt` says so or behind it.
template <class Attempt, class AsWanted>
Error on_all_ranks(const Attempt& attempt, const AsWanted& as_wanted) {
  return with_more_time(
      [&](int times) {
        MPI_Comm own = MPI_COMM_NULL;
        MPI_Comm_dup(MPI_COMM_WORLD, &own);
        bool met = false;
        const auto meet = [&met] {
          if (!met) MPI_Barrier(MPI_COMM_WORLD);
          met = true;
        };
        const Error error = error_of([&] { attempt(own, times * milliseconds(1500), meet); });
        meet();
        return error;  // where the start failed `own` holds messages that nobody took: it is not
                       // freed
      },
      [&](const Error& error) {
        const int here = as_wanted(error) ? 1 : 0;
        int everywhere = 0;
        MPI_Allreduce(&here, &everywhere, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
        return everywhere == 1;
      });
}

TEST(MpiComm, NamesTheRanksThatDoNotComeToACollective) {
  Deadline last{};
  const bool comes = world_rank() == 0 || world_rank() == 3;
  const auto attempt = [&](const MPI_Comm& own, Deadline deadline, const auto& meet) {
    last = deadline;
    const auto group = make_mpi(&own, deadline);
    if (!comes) meet();
    group->barrier();
  };
  const auto told = [&] {
    return "barrier #1: ranks 1-2 of 4 did not arrive within " + name_time(last);
  };
  const Error error = on_all_ranks(attempt, [&](const Error& e) { return contains(e, told()); });
  EXPECT_EQ(error.code(), ErrorCode::kTimeout);
  EXPECT_TRUE(contains(error, told())) << error.what();
}

TEST(MpiComm, NamesRankZeroWhenItDoesNotCome) {
  const auto attempt = [](const MPI_Comm& own, Deadline deadline, const auto& meet) {
    const auto group = make_mpi(&own, deadline);
    if (world_rank() == 0) return meet();
    group->barrier();
  };
  const std::string told =
      world_rank() == 0 ? "no error" : "barrier #1: rank 0 of 4 did not arrive";
  const Error error = on_all_ranks(attempt, [&](const Error& e) { return contains(e, told); });
  EXPECT_EQ(error.code(), world_rank() == 0 ? ErrorCode::kInternal : ErrorCode::kTimeout);
  EXPECT_TRUE(contains(error, told)) << error.what();
}

TEST(MpiComm, NamesTheRanksThatDoNotComeToTheStart) {
  const auto attempt = [](const MPI_Comm& own, Deadline deadline, const auto&) {
    if (world_rank() != 2) make_mpi(&own, deadline);
  };
  const std::string told =
      world_rank() == 2 ? "no error" : "start of the job: rank 2 of 4 did not arrive";
  const Error error = on_all_ranks(attempt, [&](const Error& e) { return contains(e, told); });
  EXPECT_EQ(error.code(), world_rank() == 2 ? ErrorCode::kInternal : ErrorCode::kTimeout);
  EXPECT_TRUE(contains(error, told)) << error.what();
}

TEST(MpiComm, TellsTheOthersWhenOneLeaves) {
  auto group = make_mpi(nullptr, seconds(60));
  if (world_rank() == 2) {
    group.reset();
  } else {
    const Error error = error_of([&] { group->barrier(); });
    EXPECT_EQ(error.code(), ErrorCode::kPeerLost);
    EXPECT_TRUE(contains(error, "barrier #1: rank 2 of 4 has left the group")) << error.what();
  }
}

TEST(MpiComm, RefusesTheNullCommunicator) {
  const MPI_Comm none = MPI_COMM_NULL;
  EXPECT_EQ(error_of([&] { make_mpi(&none, seconds(1)); }).code(), ErrorCode::kInvalidArgument);
}

TEST(MpiComm, RefusesAnUnboundedDeadline) {
  EXPECT_EQ(error_of([&] { make_mpi(nullptr, milliseconds(0)); }).code(),
            ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace peal::bootstrap

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  testing::InitGoogleTest(&argc, argv);
  const int result = RUN_ALL_TESTS();
  MPI_Finalize();
  return result;
}
