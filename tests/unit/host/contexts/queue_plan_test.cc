// SPDX-License-Identifier: Apache-2.0
//
// What queues take is known before they are made, and too much of it is the same error everywhere.
// Hazard: a PE that ran into a limit while others did not would leave them waiting for it.
#include "host/contexts/queue_plan.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/error_of.h"
#include "tests/support/job.h"

namespace peal::api_test {
namespace {

constexpr QueueShape shape(uint32_t queues, uint32_t depth) {
  return {.queues_per_peer = queues, .depth = depth};
}

Place place(const char* host, int64_t pid) {
  Place p{};
  std::string(host).copy(p.boot_id.data(), p.boot_id.size() - 1);
  p.pid_namespace = 1;
  p.pid = pid;
  return p;
}

/// 2^4 QPs, 2^5 CQs, 1 MiB.
QueuePlan small_nic() {
  QueuePlan plan;
  plan.allowed_bytes = 1u << 20;
  plan.nics = 1;
  plan.nic[0] = {
      .queues = 0, .log_max_qp = 4, .log_max_cq = 5, .name = {'m', 'l', 'x', '5', '_', '0'}};
  return plan;
}

TEST(QueuePlan, AddsUpTheContexts) {
  QueuePlan plan = small_nic();
  plan.add(shape(4, 1024), 8);
  EXPECT_EQ(plan.queues, 32u);
  EXPECT_EQ(plan.bytes, 32u * (65536 + 2 * 4096));
  plan.add(shape(1, 128), 8);
  EXPECT_EQ(plan.contexts, 2u);
  EXPECT_EQ(plan.queues, 40u);
  EXPECT_EQ(plan.bytes, 32u * (65536 + 2 * 4096) + 8u * (8192 + 4096 + 1024));
  EXPECT_EQ(plan.registrations, 4u);
  expect_in(
      describe(plan, shape(1, 128), 8),
      {"plan: 8 queues of 128 WQEBBs (8 PEs x 1)", "2 contexts in all 40 queues",
       "2408K of kernels' memory (at most 1M)", "4 registrations", "mlx5_0 has 16 QPs and 32 CQs"});
}

TEST(QueuePlan, CountsThePesThatShareANic) {
  QueuePlan plan = small_nic();
  plan.add(shape(2, 128), 4);
  const std::vector<QueuePlan> plans(4, plan);
  // 8 each: two on a host fit, three do not.
  check_plans(plans, std::vector{place("a", 1), place("a", 2), place("b", 1), place("b", 2)});
  expect_error(
      error_of([&] {
        check_plans(plans, std::vector{place("b", 9), place("a", 1), place("a", 2), place("a", 3)});
      }),
      ErrorCode::kInvalidArgument,
      {"24 queue pairs", "on mlx5_0 of PE 1", "of 3 PEs", "it has 16 (log_max_qp)", "PEAL_QUEUES",
       "PEAL_HCA"});
}

TEST(QueuePlan, KnowsThatAnotherNicIsAnother) {
  QueuePlan plan = small_nic();
  plan.add(shape(4, 128), 3);
  std::vector<QueuePlan> plans(2, plan);
  const std::vector here{place("a", 1), place("a", 2)};
  expect_error(error_of([&] { check_plans(plans, here); }), ErrorCode::kInvalidArgument,
               {"24 queue pairs", "of 2 PEs"});
  plans[1].nic[0].name[5] = '1';
  check_plans(plans, here);
  plans[1] = plans[0];
  plans[0].nic_of_process = plans[1].nic_of_process = 1;  // a software NIC each
  check_plans(plans, here);
}

TEST(QueuePlan, CountsEachOfSeveralNicsByItself) {
  QueuePlan plan = small_nic();
  plan.nics = 2;
  plan.nic[1] = plan.nic[0];
  plan.nic[1].name[5] = '1';
  QueueShape spread = shape(5, 128);
  spread.rails = 2;
  plan.add(spread, 3);
  EXPECT_EQ(plan.nic[0].queues, 9u);
  EXPECT_EQ(plan.nic[1].queues, 6u);
  EXPECT_EQ(plan.registrations, 4u);
  plan.add(shape(1, 128), 3);  // whose queues are owned: by the first NIC
  EXPECT_EQ(plan.nic[0].queues, 12u);
  EXPECT_EQ(plan.nic[1].queues, 6u);
  // The other PE has them the other way round, and a third that nobody shares.
  QueuePlan other = plan;
  std::swap(other.nic[0].name, other.nic[1].name);
  const std::vector here{place("a", 1), place("a", 2)};
  expect_error(error_of([&] {
                 check_plans(std::vector{plan, other}, here);
               }),
               ErrorCode::kInvalidArgument, {"18 queue pairs", "on mlx5_0 of PE 0", "of 2 PEs"});
  other.nic[0].name[5] = '2';
  expect_error(error_of([&] {
                 check_plans(std::vector{plan, other}, here);
               }),
               ErrorCode::kInvalidArgument, {"18 queue pairs", "on mlx5_0 of PE 0"});
  other.nic[1].name[5] = '3';
  check_plans(std::vector{plan, other}, here);
}

// Hazard: going through four thousand million wishes, which nobody has checked yet, took 15 s.
TEST(QueuePlan, CountsWishesThatAreNumbersOnly) {
  QueuePlan plan = small_nic();
  plan.nics = 2;
  QueueShape wish = shape(0xffffffffu, 128);
  wish.rails = 3;  // NIC 0 has rails 0 and 2, NIC 1 has rail 1
  plan.add(wish, 2);
  EXPECT_EQ(plan.nic[0].queues, 2 * uint64_t{2863311530});
  EXPECT_EQ(plan.nic[1].queues, 2 * uint64_t{1431655765});
  wish.queues_per_peer = 2;
  plan.add(wish, 1);
  EXPECT_EQ(plan.nic[0].queues, 2 * uint64_t{2863311530} + 1);
  EXPECT_EQ(plan.nic[1].queues, 2 * uint64_t{1431655765} + 1);
}

TEST(QueuePlan, KnowsTheSmallerOfTwoLimits) {
  QueuePlan plan = small_nic();
  plan.nic[0].log_max_cq = 3;
  plan.add(shape(9, 128), 1);
  expect_error(error_of([&] { check_plans(std::vector{plan}, std::vector{place("a", 1)}); }),
               ErrorCode::kInvalidArgument, {"9 queue pairs", "it has 8 (log_max_cq)"});
}

TEST(QueuePlan, RefusesMemoryBeyondTheSetting) {
  QueuePlan plan = small_nic();
  plan.nic[0].log_max_qp = plan.nic[0].log_max_cq = 17;
  std::vector<QueuePlan> plans(3, plan);
  for (QueuePlan& one : plans) one.add(shape(4, 1024), 3);
  const std::vector here{place("a", 1), place("a", 2), place("b", 2)};
  check_plans(plans, here);
  plans[2].allowed_bytes = plans[2].bytes;
  check_plans(plans, here);
  --plans[2].allowed_bytes;
  expect_error(error_of([&] { check_plans(plans, here); }), ErrorCode::kInvalidArgument,
               {"12 queues (1 contexts) of PE 2 need 864K", "PEAL_QUEUE_MEMORY allows 884735",
                "lower PEAL_QUEUES or PEAL_QUEUE_DEPTH"});
}

TEST(QueuePlan, IsNotAskedWhereThereIsNoNic) {
  check_plans(std::vector<QueuePlan>(2), std::vector{place("a", 1), place("a", 1)});
}

/// Of a network namespace; 0: not known.
Place place_of(const char* host, uint64_t network) {
  Place p = place(host, 1);
  p.network = network;
  return p;
}

using Pes = std::vector<uint32_t>;

// Each link to another host was made at the start, whatever was asked for: 1,023 by each of 1,024.
TEST(FirstLinks, OfLazyOnesAreNeighboursAcrossHosts) {
  const std::vector<Place> places{place_of("a", 1), place_of("a", 1), place_of("b", 2),
                                  place_of("b", 2), place_of("c", 3), place_of("c", 4)};
  const FirstLinks lazy(ConnectKind::kLazy, places, {});
  EXPECT_EQ(lazy.of(0), (Pes{1, 5}));
  EXPECT_EQ(lazy.of(2), (Pes{1, 3}));
  EXPECT_EQ(lazy.most(), 2u);
  EXPECT_EQ(FirstLinks(ConnectKind::kLazy, places, {1}).of(0), Pes{5});
}

TEST(FirstLinks, ByDefaultGoToAllPesOfOtherHosts) {
  const std::vector<Place> places{place_of("a", 1), place_of("a", 1), place_of("a", 1),
                                  place_of("a", 1), place_of("b", 2)};
  EXPECT_EQ(FirstLinks(ConnectKind::kAuto, places, {}).of(0), (Pes{1, 4}));
  EXPECT_EQ(FirstLinks(ConnectKind::kAuto, places, {}).of(1), (Pes{0, 2, 4}));
  EXPECT_EQ(FirstLinks(ConnectKind::kEager, places, {}).of(1), (Pes{0, 1, 2, 3, 4}));
}

// Nobody could ask for them later.
TEST(FirstLinks, GoToPesWithWhichThereIsNoTalking) {
  const std::vector<Place> places{place_of("a", 1), place_of("a", 1), place_of("a", 0),
                                  place_of("", 1), place_of("a", 1)};
  EXPECT_EQ(FirstLinks(ConnectKind::kLazy, places, {}).of(0), (Pes{1, 2, 3, 4}));
  EXPECT_EQ(FirstLinks(ConnectKind::kLazy, places, {}).of(4), (Pes{0, 2, 3}));
}

TEST(QueueLimits, AreAnErrorOnAllPesWhenOneHasLess) {
  std::vector<std::string> texts(3);
  bootstrap::run_threads(3, [&](Bootstrap& group) {
    Config config = small_config();
    if (group.rank() == 1) config.queue_memory = 256u << 10;
    texts[static_cast<size_t>(group.rank())] =
        refusal(ErrorCode::kInvalidArgument, [&] { const Runtime pe = start(group, config); });
  });
  for (const std::string& text : texts) {
    expect_in(text, {"12 queues", "of PE 1 need 864K", "PEAL_QUEUE_MEMORY allows 256K"});
  }
}

TEST(QueueLimits, OfTheNicAreAnErrorBeforeAnythingIsAllocated) {
  std::vector<std::string> texts(16);
  bootstrap::run_threads(16, [&](Bootstrap& group) {
    Config config = small_config();
    config.queues = 1024;
    config.queue_depth = 128;
    texts[static_cast<size_t>(group.rank())] =
        refusal(ErrorCode::kInvalidArgument, [&] { const Runtime pe = start(group, config); });
  });
  for (const std::string& text : texts) {
    expect_in(text, {"262144 queue pairs", "of 16 PEs", "it has 131072", "PEAL_QUEUES"});
  }
}

PEAL_KERNEL put_one(Verdict* verdict, Context ctx, uint64_t* word) {
  expect_ok(verdict, p(ctx, word, uint64_t{7}, (my_pe(ctx) + 1) % n_pes(ctx)));
  expect_ok(verdict, barrier_all(ctx));
  expect_eq(verdict, *word, 7);
}

TEST(QueueLimits, CountTheContextsThereAre) {
  bootstrap::run_threads(2, [&](Bootstrap& group) {
    Config config = small_config();
    config.queue_memory = 1u << 20;  // the default context takes 576K
    Runtime pe = start(group, config);
    expect_error(error_of([&] { pe.make_context(); }), ErrorCode::kInvalidArgument,
                 {"16 queues (2 contexts) of PE 0 need 1152K", "PEAL_QUEUE_MEMORY allows 1M"});
    {
      const auto fits = pe.make_context({.queues_per_peer = 1, .depth = 128});
      Symmetric<uint64_t> word(pe, 1);
      run_clean(pe, {}, put_one, fits.value(), word.data());
      pe.barrier();
    }
    Symmetric<uint64_t> word(pe, 1);
    run_clean(pe, {}, put_one, pe.context(), word.data());
  });
}

}  // namespace
}  // namespace peal::api_test

int main(int argc, char** argv) { return peal::api_test::run_tests(argc, argv); }
