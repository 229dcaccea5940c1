// SPDX-License-Identifier: Apache-2.0
//
// The C functions, from init to finalize and again, under mpirun with two ranks.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "peal/c_api.h"
#include "peal/c_calls.h"
#include "peal/c_failures.h"
#include "peal/peal.h"

namespace {

// Before the environment, because the rest needs it initialised.
TEST(CApi, NamesTheMissingInit) {
  EXPECT_STREQ(peal_error(), "") << "nothing has failed yet";
  EXPECT_EQ(peal_error_code(), PEAL_ERROR_NONE);
  EXPECT_EQ(peal_my_pe(), -1);
  EXPECT_EQ(peal_n_pes(), -1);
  EXPECT_EQ(peal_malloc(8), nullptr);
  EXPECT_NE(std::string(peal_error()).find("peal_malloc: call peal_init() first"),
            std::string::npos);
  EXPECT_EQ(peal_error_code(), PEAL_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(peal_finalize(), -1);
  EXPECT_EQ(peal_dump(), nullptr);
  peal_failure_t failure;
  const peal_counters_t* counters = nullptr;
  EXPECT_EQ(peal_failure(&failure), -1);
  EXPECT_EQ(peal_counters(&counters), -1);
  EXPECT_NE(std::string(peal_error()).find("peal_counters: call peal_init() first"),
            std::string::npos);
  EXPECT_EQ(peal_rejoin(), -1);
  EXPECT_EQ(peal_rejoin_keeping_heap(), -1);
  EXPECT_EQ(peal_epoch(), -1);
  EXPECT_NE(std::string(peal_error()).find("peal_epoch: call peal_init() first"),
            std::string::npos);
  EXPECT_EQ(peal_own_stream(), nullptr);
  EXPECT_EQ(peal_ticket_create(nullptr), nullptr);
  EXPECT_EQ(peal_runtime(), nullptr);
}

TEST(CApi, InitialisesOnce) {
  ASSERT_EQ(peal_init(), 0) << peal_error();
  EXPECT_EQ(peal_n_pes(), 2);
  EXPECT_GE(peal_my_pe(), 0);
  EXPECT_EQ(peal_init(), -1);
  EXPECT_NE(std::string(peal_error()).find("called twice"), std::string::npos);
}

TEST(CApi, AllocatesAlignedZeroedAndReusable) {
  void* first = peal_malloc(100);
  ASSERT_NE(first, nullptr) << peal_error();
  auto* zeros = static_cast<unsigned char*>(peal_calloc(64, 3));
  void* host = peal_calloc_host(4, 8);
  EXPECT_NE(host, nullptr) << peal_error();
  EXPECT_EQ(peal_free(host), 0);
  ASSERT_NE(zeros, nullptr);
  for (int i = 0; i < 192; ++i) EXPECT_EQ(zeros[i], 0);
  void* page = peal_align(4096, 10);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(page) % 4096, 0u);
  EXPECT_EQ(peal_free(first), 0);
  EXPECT_EQ(peal_malloc(100), first);
  EXPECT_EQ(peal_free(first), 0);
  EXPECT_EQ(peal_free(zeros), 0);
  EXPECT_EQ(peal_free(page), 0);
  EXPECT_EQ(peal_malloc(size_t{1} << 60), nullptr);
  EXPECT_EQ(peal_error_code(), PEAL_ERROR_OUT_OF_MEMORY) << peal_error();
}

// Hazard: `fprintf(stderr, "PE %d: %s", peal_my_pe(), peal_error())` said nothing, for the first of
// the two calls had cleared the text.
TEST(CApi, KeepsTheErrorUntilTheNextOne) {
  int foreign = 0;
  EXPECT_EQ(peal_free(&foreign), -1);
  const std::string why = peal_error();
  EXPECT_NE(why.find("not in the symmetric heap"), std::string::npos) << why;
  EXPECT_GE(peal_my_pe(), 0);
  EXPECT_EQ(peal_n_pes(), 2);
  EXPECT_EQ(peal_malloc(0), nullptr) << "0 bytes are no error";
  EXPECT_EQ(peal_free(nullptr), 0) << "as free(NULL)";
  EXPECT_EQ(peal_check(), 0);
  EXPECT_EQ(peal_barrier(), 0);
  EXPECT_EQ(peal_error(), why);
  EXPECT_EQ(peal_init(), -1);
  EXPECT_NE(peal_error(), why);
}

// tests/run/rejoin_test.sh has what it does where it can.
TEST(CApi, RefusesToRejoinWhereAllLive) {
  EXPECT_EQ(peal_epoch(), 0) << peal_error();
  EXPECT_EQ(peal_rejoin(), -1);
  EXPECT_EQ(peal_error_code(), PEAL_ERROR_INVALID_ARGUMENT);
  EXPECT_NE(std::string(peal_error()).find("peal_rejoin: all 2 PEs live"), std::string::npos)
      << peal_error();
  EXPECT_EQ(peal_barrier(), 0) << "the job is as it was";
}

TEST(CApi, TellsWhereEverythingStands) {
  ASSERT_NE(peal_dump(), nullptr) << peal_error();
  EXPECT_EQ(std::string(peal_dump()), peal_runtime()->dump());
}

TEST(CApi, TellsThatNothingHasFailed) {
  peal_failure_t failure = {};
  ASSERT_EQ(peal_failure(&failure), 0) << peal_error();
  EXPECT_EQ(failure.status, 0);
  EXPECT_STREQ(failure.status_name, "ok");
  EXPECT_EQ(failure.pe, -1);
  EXPECT_STREQ(failure.text, "");
  const peal_counters_t* counters = nullptr;
  EXPECT_EQ(peal_counters(&counters), 0) << "PEAL_RECORD is not set";
  EXPECT_EQ(peal_failure(nullptr), -1);
  EXPECT_EQ(peal_counters(nullptr), -1);
  EXPECT_EQ(peal_error_code(), PEAL_ERROR_INVALID_ARGUMENT) << peal_error();
}

PEAL_KERNEL send(peal::Context ctx, uint64_t* word) {
  (void)peal::p(ctx, word, uint64_t{7} + static_cast<uint64_t>(ctx.pe), 1 - ctx.pe);
  (void)peal::barrier_all(ctx);
}

TEST(CApi, LeadsToKernels) {
  auto* word = static_cast<uint64_t*>(peal_calloc(1, 8));
  peal::Context ctx;
  peal::Team team;
  ASSERT_EQ(peal_context(&ctx, sizeof ctx, peal::kContextVersion), 0) << peal_error();
  ASSERT_EQ(peal_team_value(peal_team_world(), &team, sizeof team), 0) << peal_error();
  EXPECT_EQ(team.size, 2);
  peal::launch({.blocks = 1, .threads = 1}, send, ctx, word).wait();
  EXPECT_EQ(peal_check(), 0) << peal_error();
  EXPECT_EQ(*word, uint64_t{7} + static_cast<uint64_t>(1 - peal_my_pe()));
  EXPECT_EQ(peal_free(word), 0);
}

// Hazard: a kernel of other headers would read the context by another layout.
TEST(CApi, RefusesKernelsOfOtherHeaders) {
  peal::Context ctx;
  peal::Team team;
  EXPECT_EQ(peal_context(&ctx, sizeof ctx, peal::kContextVersion + 1), -1);
  EXPECT_EQ(peal_error_code(), PEAL_ERROR_UNSUPPORTED) << peal_error();
  EXPECT_EQ(peal_context(&ctx, sizeof ctx - 8, peal::kContextVersion), -1);
  EXPECT_EQ(peal_team_value(peal_team_world(), &team, sizeof team - 8), -1);
  EXPECT_EQ(peal_error_code(), PEAL_ERROR_UNSUPPORTED) << peal_error();
  EXPECT_EQ(peal_context(nullptr, sizeof ctx, peal::kContextVersion), -1);
  EXPECT_EQ(peal_error_code(), PEAL_ERROR_INVALID_ARGUMENT) << peal_error();
}

TEST(CApi, Finalizes) {
  EXPECT_EQ(peal_finalize(), 0);
  EXPECT_EQ(peal_my_pe(), -1);
  EXPECT_EQ(peal_abort("before init"), -1);
  EXPECT_EQ(peal_leave("before init"), -1);
}

// Hazard: the PE that was first in its next job knocked at the door of PE 0's last one, which was
// about to close, and heard that PE 0 had died.
TEST(CApi, BeginsAgainAtOnce) {
  for (int i = 0; i < 20; ++i) {
    ASSERT_EQ(peal_init(), 0) << peal_error();
    EXPECT_EQ(peal_n_pes(), 2);
    ASSERT_EQ(peal_finalize(), 0) << peal_error();
  }
}

/// A word that nobody sets, in a job of its own.
const uint64_t* never_set() {
  EXPECT_EQ(peal_init(), 0) << peal_error();
  return static_cast<uint64_t*>(peal_calloc(1, 8));
}

TEST(CApi, AbortEndsTheWaitsOfAllPes) {
  const uint64_t* const word = never_set();
  if (peal_my_pe() == 1) {
    EXPECT_EQ(peal_abort("had enough"), 0) << peal_error();
  }
  EXPECT_EQ(peal_wait_until(word, PEAL_UINT64, PEAL_NE, 0), -1);
  const std::string why = peal_error();
  EXPECT_NE(why.find("had enough"), std::string::npos) << why;
  EXPECT_NE(why.find("PE 1"), std::string::npos) << why;
  peal_failure_t failure = {};
  EXPECT_EQ(peal_failure(&failure), 0) << peal_error();
  EXPECT_STREQ(failure.status_name, "aborted");
  EXPECT_EQ(failure.pe, 1);
  EXPECT_NE(std::string(failure.text).find("had enough"), std::string::npos) << failure.text;
  EXPECT_EQ(peal_finalize(), 0) << peal_error();
}

// Hazard: a program that ends because of an error of its own waited for PEs that waited for it.
TEST(CApi, LeavesAtOnceAndTellsTheOthersWhy) {
  const uint64_t* const word = never_set();
  if (peal_my_pe() == 0) {
    EXPECT_EQ(peal_wait_until(word, PEAL_UINT64, PEAL_NE, 0), -1);
    const std::string why = peal_error();
    EXPECT_NE(why.find("PE 1"), std::string::npos) << why;
    EXPECT_NE(why.find("out of data"), std::string::npos) << why;
    EXPECT_EQ(peal_error_code(), PEAL_ERROR_PEER_LOST);
  }
  EXPECT_EQ(peal_leave("out of data"), 0) << peal_error();
  EXPECT_EQ(peal_n_pes(), -1);
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
