// SPDX-License-Identifier: Apache-2.0
//
// What vouches for a put and what does not, on either route: a program that takes the value of a p
// or an atomic for more than that value fails under some seed, wherever its memory is, and passes
// under all of them with a fence or a signal.
#include <gtest/gtest.h>

#include "tests/sim/kernels.h"
#include "tests/sim/run.h"

namespace peal::sim {
namespace {

constexpr uint32_t kWords = 6;
constexpr uint32_t kRounds = 3;
constexpr uint64_t kSeeds = 400;

enum class Route { kMapped, kNic };
enum class Tell { kP, kAdd, kFetchAdd, kSignalSet, kSignalAdd, kSet, kInc, kSwap, kMax };

Status tell(const Context& ctx, Tell how, uint64_t* flag, uint64_t round) {
  switch (how) {
    case Tell::kP:
      return p(ctx, flag, round, 1);
    case Tell::kAdd:
      return atomic_add(ctx, flag, 1, 1);
    case Tell::kFetchAdd:
      return atomic_fetch_add(ctx, flag, 1, 1).status;
    case Tell::kSignalSet:
      return signal(ctx, Signal::set(flag, round, 1));
    case Tell::kSignalAdd:
      return signal(ctx, Signal::add(flag, 1, 1));
    case Tell::kSet:
      return atomic_set(ctx, flag, round, 1, release);
    case Tell::kInc:
      return atomic_inc(ctx, flag, 1, release);
    case Tell::kSwap:
      return atomic_swap(ctx, flag, round, 1, acq_rel).status;
    default:
      return atomic_max(ctx, flag, round, 1, release);
  }
}

template <Route kRoute, Tell kHow, bool kFenced>
void put_and_tell(simt::Simulation& sim) {
  JobOptions options = any_options(sim.random());
  options.direct = kRoute == Route::kMapped;
  Job job(sim, options);
  job.launch(0, {1, 1}, [&job] {
    const Context ctx = job.context<Reach::kGpu>(0);
    auto* const source = job.at<uint64_t>(0, kSource);
    for (uint32_t round = 1; round <= kRounds; ++round) {
      write_words(source, kWords, 0, 0, round);
      must(put_nbi(ctx, job.at<uint64_t>(0, kTarget), source, kWords, 1).status, "put_nbi");
      if (kFenced) must(fence(ctx), "fence");
      must(tell(ctx, kHow, job.at<uint64_t>(0, kFlags), round), "the word");
      must(wait_until(ctx, job.at<uint64_t>(0, kAnswers), Compare::kGe, uint64_t{round}), "answer");
    }
  });
  job.launch(1, {1, 1}, [&job] {
    const Context ctx = job.context<Reach::kGpu>(1);
    for (uint32_t round = 1; round <= kRounds; ++round) {
      must(wait_until(ctx, job.at<uint64_t>(1, kFlags), Compare::kGe, uint64_t{round}), "the word");
      check_words(job.at<uint64_t>(1, kTarget), kWords, 0, 0, round);
      must(signal(ctx, Signal::set(job.at<uint64_t>(1, kAnswers), round, 0)), "signal");
    }
  });
  run_clean(sim, job);
}

/// The same by two lanes of a warp, each to one of the peer's: where they meet, both words of p are
/// one request, of which the first is no less a flag than the last.
void put_and_tell_by_two(simt::Simulation& sim) {
  JobOptions options = any_options(sim.random());
  options.direct = false;
  // Else a WRITE vouches for nothing while anything of its queue is under way, the other lane's
  // too.
  options.placed_in_order = true;
  Job job(sim, options);
  job.launch(0, {1, 2}, [&job] {
    const Context ctx = job.context<Reach::kGpu>(0);
    const uint32_t lane = thread_in_block();
    auto* const source = job.at<uint64_t>(0, kSource) + lane * kWords;
    for (uint32_t round = 1; round <= kRounds; ++round) {
      write_words(source, kWords, 0, lane, round);
      auto* const target = job.at<uint64_t>(0, kTarget) + lane * kWords;
      must(put_nbi(ctx, target, source, kWords, 1).status, "put_nbi");
      must(fence(ctx), "fence");
      must(p(ctx, job.at<uint64_t>(0, kFlags) + lane, uint64_t{round}, 1), "the word");
      auto* const answer = job.at<uint64_t>(0, kAnswers) + lane;
      must(wait_until(ctx, answer, Compare::kGe, uint64_t{round}), "answer");
    }
  });
  job.launch(1, {1, 2}, [&job] {
    const Context ctx = job.context<Reach::kGpu>(1);
    const uint32_t lane = thread_in_block();
    for (uint32_t round = 1; round <= kRounds; ++round) {
      auto* const flag = job.at<uint64_t>(1, kFlags) + lane;
      must(wait_until(ctx, flag, Compare::kGe, uint64_t{round}), "the word");
      check_words(job.at<uint64_t>(1, kTarget) + lane * kWords, kWords, 0, lane, round);
      auto* const answer = job.at<uint64_t>(1, kAnswers) + lane;
      must(signal(ctx, Signal::set(answer, round, 0)), "signal");
    }
  });
  run_clean(sim, job);
}

/// Seeds that fail, and the first one's words.
uint64_t failures(const Workload& workload, std::string* first) {
  uint64_t failed = 0;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const Result result = run_once(workload, seed);
    if (!result.failure.empty() && failed++ == 0) *first = result.failure;
  }
  return failed;
}
template <Route kRoute, Tell kHow, bool kFenced>
uint64_t failures(std::string* first) {
  return failures({"put_and_tell", put_and_tell<kRoute, kHow, kFenced>}, first);
}

template <Route kRoute, Tell kHow>
void expect_needs_a_fence() {
  std::string first;
  EXPECT_GT((failures<kRoute, kHow, false>(&first)), 0u) << "relied on, and no seed noticed";
  EXPECT_NE(first.find("is of round"), std::string::npos) << first;
  EXPECT_EQ((failures<kRoute, kHow, true>(&first)), 0u) << first;
}

template <Route kRoute, Tell kHow>
void expect_vouches() {
  std::string first;
  EXPECT_EQ((failures<kRoute, kHow, false>(&first)), 0u) << first;
}

TEST(Promises, AValueOfPVouchesForNothing) {
  expect_needs_a_fence<Route::kMapped, Tell::kP>();
  expect_needs_a_fence<Route::kNic, Tell::kP>();
}

TEST(Promises, EachWordOfACombinedStoreIsAFlagBehindAFence) {
  std::string first;
  EXPECT_EQ(failures({"put_and_tell_by_two", put_and_tell_by_two}, &first), 0u) << first;
}

TEST(Promises, AnAtomicVouchesForNothing) {
  expect_needs_a_fence<Route::kMapped, Tell::kAdd>();
  expect_needs_a_fence<Route::kNic, Tell::kAdd>();
}

TEST(Promises, AFetchingAtomicVouchesForNothing) {
  expect_needs_a_fence<Route::kMapped, Tell::kFetchAdd>();
  expect_needs_a_fence<Route::kNic, Tell::kFetchAdd>();
}

TEST(Promises, ASignalVouchesForThePutsBeforeIt) {
  expect_vouches<Route::kMapped, Tell::kSignalSet>();
  expect_vouches<Route::kNic, Tell::kSignalSet>();
  expect_vouches<Route::kMapped, Tell::kSignalAdd>();
  expect_vouches<Route::kNic, Tell::kSignalAdd>();
}

TEST(Promises, AReleaseVouchesForThePutsBeforeIt) {
  expect_vouches<Route::kMapped, Tell::kSet>();
  expect_vouches<Route::kNic, Tell::kSet>();
  expect_vouches<Route::kMapped, Tell::kInc>();
  expect_vouches<Route::kNic, Tell::kInc>();
  expect_vouches<Route::kMapped, Tell::kSwap>();
  expect_vouches<Route::kNic, Tell::kSwap>();
  expect_vouches<Route::kMapped, Tell::kMax>();
  expect_vouches<Route::kNic, Tell::kMax>();
}

/// PE 0 stores at home, releases a word at home; PE 1 looks at it by an atomic and gets the data.
template <class O>
void look_and_get(simt::Simulation& sim) {
  JobOptions options = any_options(sim.random());
  options.direct = true;
  Job job(sim, options);
  job.launch(0, {1, 1}, [&job] {
    write_words(job.at<uint64_t>(0, kTarget), kWords, 0, 0, 1);
    must(atomic_set(job.context<Reach::kGpu>(0), job.at<uint64_t>(0, kFlags), 1, 0, release),
         "atomic_set");
  });
  job.launch(1, {1, 1}, [&job] {
    const Context ctx = job.context<Reach::kGpu>(1);
    auto* const flag = job.at<uint64_t>(1, kFlags);
    must(detail::spin(ctx, [&] { return atomic_fetch(ctx, flag, 0, O{}).value == 1; }), "the word");
    auto* const copy = job.at<uint64_t>(1, kSource);
    must(get(ctx, copy, job.at<uint64_t>(1, kTarget), kWords, 0), "get");
    check_words(copy, kWords, 0, 0, 1);
  });
  run_clean(sim, job);
}

TEST(Promises, ALookAcquiresWhereItSaysSo) {
  const auto failed = [](void (*run)(simt::Simulation&)) {
    uint64_t count = 0;
    for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
      if (!run_once({"look_and_get", run}, seed).failure.empty()) ++count;
    }
    return count;
  };
  EXPECT_EQ(failed(look_and_get<Ordering<Order::kAcquire>>), 0u);
  EXPECT_GT(failed(look_and_get<Relaxed>), 0u) << "relied on, and no seed noticed";
}

}  // namespace
}  // namespace peal::sim
