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
    const auto group = make_mpi(nullptr, seconds(20));
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
  const auto group = make_mpi(&half, seconds(20));
  MPI_Comm_free(&half);
  ASSERT_EQ(group->size(), 2);
  const int parity = world_rank() % 2;
  EXPECT_EQ(gather(*group, world_rank()), (std::vector<int>{2 + parity, parity}));
}

TEST(MpiComm, KeepsSeveralGroupsApart) {
  const auto first = make_mpi(nullptr, seconds(20));
  const auto second = make_mpi(nullptr, seconds(20));
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

TEST(MpiComm, NamesTheRanksThatDoNotComeToACollective) {
  const auto group = make_mpi(nullptr, milliseconds(1500));
  if (world_rank() == 0 || world_rank() == 3) {
    const Error error = error_of([&] { group->barrier(); });
    EXPECT_EQ(error.code(), ErrorCode::kTimeout);
    EXPECT_TRUE(contains(error, "barrier #1: ranks 1, 2 of 4 did not arrive within 1500 ms"))
        << error.what();
    MPI_Barrier(MPI_COMM_WORLD);
  } else {
    MPI_Barrier(MPI_COMM_WORLD);
    const Error error = error_of([&] { group->barrier(); });
    EXPECT_TRUE(contains(error, "ranks 1, 2 of 4 did not arrive")) << error.what();
  }
}

TEST(MpiComm, NamesRankZeroWhenItDoesNotCome) {
  const auto group = make_mpi(nullptr, milliseconds(1500));
  if (world_rank() != 0) {
    const Error error = error_of([&] { group->barrier(); });
    EXPECT_EQ(error.code(), ErrorCode::kTimeout);
    EXPECT_TRUE(contains(error, "barrier #1: rank 0 of 4 did not arrive")) << error.what();
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

TEST(MpiComm, NamesTheRanksThatDoNotComeToTheStart) {
  MPI_Comm own = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &own);
  if (world_rank() != 2) {
    const Error error = error_of([&] { make_mpi(&own, milliseconds(1500)); });
    EXPECT_EQ(error.code(), ErrorCode::kTimeout);
    EXPECT_TRUE(contains(error, "start of the job: rank 2 of 4 did not arrive")) << error.what();
  }
  MPI_Barrier(MPI_COMM_WORLD);
  // Its start failed: `own` holds messages that nobody took, so it is not freed.
}

TEST(MpiComm, TellsTheOthersWhenOneLeaves) {
  auto group = make_mpi(nullptr, seconds(20));
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
