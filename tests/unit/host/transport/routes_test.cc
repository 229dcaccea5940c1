// SPDX-License-Identifier: Apache-2.0
//
// Which transport is chosen, what is said about it, and that nobody is left waiting when there is
// none.
#include "host/transport/routes.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "bootstrap/bootstraps.h"
#include "tests/support/error_of.h"

namespace peal {
namespace {

std::byte somewhere{};

/// What a PE that tries nothing but its NIC has to go by.
Reachable alone(Bootstrap& group, const RouteOptions& options) { return {group, options, {}, {}}; }

/// The same for a PE that reaches `reached` and not the others.
Reachable reachable_of(Bootstrap& group, const RouteOptions& options,
                       const std::vector<bool>& reached) {
  std::vector<std::byte*> direct;
  std::vector<std::string> how;
  for (const bool one : reached) {
    direct.push_back(one ? &somewhere : nullptr);
    how.push_back(one ? "same process" : "other host");
  }
  return {group, options, direct, how};
}

Routes routes_of(Bootstrap& group, const RouteOptions& options, const std::vector<bool>& reached) {
  return {reachable_of(group, options, reached), options};
}

TEST(Routes, OfACpuLeadThroughTheNicUnlessAsked) {
  const auto group = bootstrap::make_single();
  const RouteOptions options{TransportKind::kAuto, Target::kCpu};
  const Reachable reachable = alone(*group, options);
  EXPECT_TRUE(reachable.needs_nic());
  const Routes routes(reachable, options);
  EXPECT_EQ(routes.to(0), Route::kIbgda);
  EXPECT_STREQ(routes.name(), "ibgda");
  EXPECT_EQ(routes.describe(), "PE 0: ibgda (PEAL_TRANSPORT=auto, kernels on a CPU)\n");
  const RouteOptions named{TransportKind::kIbgda, Target::kCpu};
  const Routes asked(alone(*group, named), named);
  EXPECT_EQ(asked.describe(), "PE 0: ibgda (PEAL_TRANSPORT=ibgda)\n");
}

TEST(Routes, LeadThroughAProxyWhenAsked) {
  const auto group = bootstrap::make_single();
  for (const Target target : {Target::kCpu, Target::kGpu}) {
    const RouteOptions options{TransportKind::kProxy, target};
    const Reachable reachable = alone(*group, options);
    EXPECT_TRUE(reachable.needs_nic());
    const Routes asked(reachable, options);
    EXPECT_EQ(asked.to(0), Route::kProxy);
    EXPECT_EQ(asked.by_nic(), Route::kProxy);
    EXPECT_STREQ(asked.name(), "proxy");
    EXPECT_EQ(asked.describe(), "PE 0: proxy (PEAL_TRANSPORT=proxy)\n");
  }
}

TEST(Routes, LeadDirectlyWhereP2pReachesAllPes) {
  bootstrap::run_threads(3, [](Bootstrap& group) {
    for (const RouteOptions& options : {RouteOptions{TransportKind::kP2p, Target::kCpu},
                                        RouteOptions{TransportKind::kAuto, Target::kGpu},
                                        RouteOptions{TransportKind::kP2p, Target::kGpu}}) {
      EXPECT_FALSE(reachable_of(group, options, {true, true, true}).needs_nic());
      const Routes routes = routes_of(group, options, {true, true, true});
      EXPECT_STREQ(routes.name(), "p2p");
      EXPECT_EQ(routes.describe(), "PEs 0-2: p2p (same process)\n");
    }
  });
}

// Fails at 438a779: nobody asked.
TEST(Routes, MustSettleWhereFlagsMayComePastANic) {
  const RouteOptions on_gpu{TransportKind::kAuto, Target::kGpu};
  const auto must = [](Bootstrap& group, const RouteOptions& options, std::vector<bool> reached) {
    return reachable_of(group, options, reached).must_settle();
  };
  bootstrap::run_threads(3, [&](Bootstrap& group) {
    const int me = group.rank();
    const auto same = [&](int a, int b) { return (a == 2) == (b == 2); };
    EXPECT_FALSE(must(group, on_gpu, {true, true, true})) << "no NIC";
    EXPECT_FALSE(must(group, on_gpu, {me == 0, me == 1, me == 2})) << "each reaches itself";
    EXPECT_TRUE(must(group, on_gpu, {same(me, 0), same(me, 1), same(me, 2)})) << "two nodes";
    EXPECT_FALSE(must(group, {TransportKind::kIbgda, Target::kGpu}, {true, true, true})) << "NICs";
    RouteOptions old = on_gpu;
    old.orders_writes = me != 1;
    EXPECT_TRUE(must(group, old, {me == 0, me == 1, me == 2})) << "an old GPU";
    // There not even a word vouches for what the same NIC wrote before it.
    EXPECT_TRUE(reachable_of(group, old, {me == 0, me == 1, me == 2}).unordered());
    EXPECT_FALSE(reachable_of(group, on_gpu, {same(me, 0), same(me, 1), same(me, 2)}).unordered());
    EXPECT_FALSE(must(group, old, {true, true, true})) << "an old GPU, no NIC";
  });
}

TEST(Routes, NameThePeThatNothingReachesOnAllPes) {
  bootstrap::run_threads(3, [](Bootstrap& group) {
    // PE 1 does not reach PE 2; all others reach everybody.
    const bool lacking = group.rank() == 1;
    for (const Target target : {Target::kCpu, Target::kGpu}) {
      const std::string text = refusal(ErrorCode::kUnsupported, [&] {
        routes_of(group, {TransportKind::kP2p, target}, {true, true, !lacking});
      });
      if (!lacking) {
        expect_in(text, {"PE 1: no transport reaches PE 2: p2p: "});
      } else {
        expect_in(text, {"PE 2", "p2p: other host", "PEAL_TRANSPORT=p2p", "set PEAL_TRANSPORT"});
      }
    }
  });
}

TEST(Routes, OfAGpuLeadThroughTheNicWhenAskedOrWhereP2pDoesNotReach) {
  const auto group = bootstrap::make_single();
  const RouteOptions named{TransportKind::kIbgda, Target::kGpu};
  const Routes asked(alone(*group, named), named);
  EXPECT_EQ(asked.describe(), "PE 0: ibgda (PEAL_TRANSPORT=ibgda)\n");
  bootstrap::run_threads(2, [](Bootstrap& pair) {
    const bool first = pair.rank() == 0;
    const RouteOptions options{TransportKind::kAuto, Target::kGpu};
    EXPECT_TRUE(reachable_of(pair, options, {first, true}).needs_nic()) << "its peer needs one";
    const Routes mixed = routes_of(pair, options, {first, true});
    EXPECT_STREQ(mixed.name(), first ? "p2p" : "p2p+ibgda");
    EXPECT_EQ(mixed.describe(), first ? "PEs 0-1: p2p (same process)\n"
                                      : "PE 0: ibgda (other host)\nPE 1: p2p (same process)\n");
  });
}

// Per peer: who is reached directly is, whoever drives the NIC.
TEST(Routes, OfAutoLeadThroughAProxyWhereKernelsCannotDriveTheNic) {
  bootstrap::run_threads(2, [](Bootstrap& pair) {
    RouteOptions options{TransportKind::kAuto, Target::kGpu};
    if (pair.rank() == 1) options.why_proxy = "no DEVX";
    const Routes routes = routes_of(pair, options, {pair.rank() == 0, pair.rank() == 1});
    EXPECT_STREQ(routes.name(), pair.rank() == 1 ? "p2p+proxy" : "p2p+ibgda");
    EXPECT_EQ(routes.describe(),
              pair.rank() == 1 ? "PE 0: proxy (other host; no DEVX)\nPE 1: p2p (same process)\n"
                               : "PE 0: p2p (same process)\nPE 1: ibgda (other host)\n");
    // What was asked for by name is not replaced.
    options.asked = TransportKind::kIbgda;
    EXPECT_EQ(routes_of(pair, options, {false, false}).to(0), Route::kIbgda);
  });
}

}  // namespace
}  // namespace peal
