// SPDX-License-Identifier: Apache-2.0
//
// Whether signals may be WRITEs: what each NIC says of its order, and what is decided for the job.
#include "host/transport/signal_ops.h"

#include <cstring>
#include <string>

#include "gtest/gtest.h"
#include "host/base/error.h"

namespace peal {
namespace {

using nic::Placement;
using nic::PlacementFacts;

constexpr PlacementFacts kSilent{};
constexpr PlacementFacts kForces{.forces_order = true};
constexpr PlacementFacts kOutside{.service_level = 2, .ooo_sl_mask = 0xfffb};
constexpr PlacementFacts kInside{.service_level = 3, .ooo_sl_mask = 0xfffb};

PlacementOffer offer(const PlacementFacts& facts, const char* nic) {
  PlacementOffer made{.facts = facts};
  std::strncpy(made.nic, nic, sizeof made.nic - 1);
  return made;
}

TEST(Placement, IsInOrderOnlyWhereSomethingSaysSo) {
  EXPECT_EQ(nic::placement_of(kSilent), Placement::kAny);
  EXPECT_EQ(nic::placement_of(kInside), Placement::kAny);
  EXPECT_EQ(nic::placement_of(kForces), Placement::kForcible);
  EXPECT_EQ(nic::placement_of(kOutside), Placement::kInOrder);
  EXPECT_EQ(nic::placement_of({.mlx5 = false}), Placement::kInOrder);
  EXPECT_EQ(nic::placement_of({.forces_order = true, .service_level = 0, .ooo_sl_mask = 1}),
            Placement::kForcible);
  EXPECT_EQ(nic::placement_of({.forces_order = true, .service_level = 15, .ooo_sl_mask = 0x7fff}),
            Placement::kInOrder);
}

TEST(Placement, IsInNoOrderWhereKeysAreRelaxedOnly) {
  constexpr PlacementFacts kRelaxed{
      .relaxed_only = true, .forces_order = true, .service_level = 2, .ooo_sl_mask = 0xfffb};
  EXPECT_EQ(nic::placement_of(kRelaxed), Placement::kAny);
  EXPECT_NE(nic::describe_placement(kRelaxed).find("(mkc_order_write_after_write_ro_only)"),
            std::string::npos);
}

TEST(Placement, IsDescribedWithItsReason) {
  EXPECT_EQ(nic::describe_placement(kSilent),
            "may place WRITEs out of order (no ooo_sl_mask says otherwise; no dp_ordering_force)");
  EXPECT_EQ(nic::describe_placement(kInside),
            "may place WRITEs out of order (service level 3 is in ooo_sl_mask 0xfffb; no "
            "dp_ordering_force)");
  EXPECT_EQ(nic::describe_placement(kOutside),
            "places WRITEs in order (service level 2 is outside ooo_sl_mask 0xfffb)");
  EXPECT_EQ(nic::describe_placement({.mlx5 = false}),
            "places WRITEs in order (it is no mlx5 device)");
}

TEST(SignalOps, AutoWritesOnlyWhereEveryNicPlacesInOrder) {
  const SignalOps all = choose_signal_ops(SignalOpsSetting::kAuto,
                                          {offer(kOutside, "mlx5_0"), offer(kOutside, "mlx5_0")});
  EXPECT_FALSE(all.atomic);
  EXPECT_FALSE(all.forced);
  EXPECT_TRUE(all.in_order);
  EXPECT_NE(all.why.find("set by WRITEs: mlx5_0 of PE 0 places"), std::string::npos) << all.why;

  for (const PlacementFacts& other : {kSilent, kForces, kInside}) {
    const SignalOps one = choose_signal_ops(SignalOpsSetting::kAuto,
                                            {offer(kOutside, "mlx5_0"), offer(other, "mlx5_3")});
    EXPECT_TRUE(one.atomic);
    EXPECT_FALSE(one.forced) << "adaptive routing is not given up unasked";
    EXPECT_FALSE(one.in_order);
    EXPECT_NE(one.why.find("set by 8-byte swaps: mlx5_3 of PE 1 may"), std::string::npos);
  }
}

TEST(SignalOps, WriteForcesOrderWhereItMust) {
  const SignalOps forced = choose_signal_ops(SignalOpsSetting::kWrite,
                                             {offer(kForces, "mlx5_0"), offer(kOutside, "mlx5_0")});
  EXPECT_FALSE(forced.atomic);
  EXPECT_TRUE(forced.forced);
  EXPECT_TRUE(forced.in_order);
  EXPECT_NE(forced.why.find("set by WRITEs, order forced: "), std::string::npos) << forced.why;
  EXPECT_FALSE(choose_signal_ops(SignalOpsSetting::kWrite, {offer(kOutside, "mlx5_0")}).forced);
}

TEST(SignalOps, WriteIsRefusedWhereOrderCannotBeHad) {
  try {
    choose_signal_ops(SignalOpsSetting::kWrite, {offer(kForces, "mlx5_0"), offer(kInside, "mlx5_7"),
                                                 offer(kForces, "mlx5_0")});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kConfiguration);
    const std::string text = error.what();
    EXPECT_NE(text.find("PEAL_SIGNAL_OPS=write: mlx5_7 of PE 1 may place WRITEs out of order"),
              std::string::npos)
        << text;
    EXPECT_NE(text.find("auto, atomic and strong send signals as atomics"), std::string::npos)
        << text;
  }
}

TEST(SignalOps, AtomicIsAlwaysPossibleAndKeepsTheOrderThereIs) {
  const SignalOps ordered =
      choose_signal_ops(SignalOpsSetting::kAtomic, {offer(kOutside, "mlx5_0")});
  EXPECT_TRUE(ordered.atomic);
  EXPECT_TRUE(ordered.in_order);
  EXPECT_FALSE(choose_signal_ops(SignalOpsSetting::kAtomic, {offer(kForces, "mlx5_0")}).in_order);
}

TEST(SignalOps, AtomicsWaitWhereSomeNicDoesNotExecuteThemInOrder) {
  constexpr PlacementFacts kBus{.atomics = nic::AtomicOrder::kBus};
  constexpr PlacementFacts kLoose{.atomics = nic::AtomicOrder::kOutOfOrder};
  constexpr PlacementFacts kOrderedBus{
      .atomics = nic::AtomicOrder::kBus, .service_level = 2, .ooo_sl_mask = 0xfffb};
  const auto chosen = [](SignalOpsSetting asked, const PlacementFacts& facts) {
    return choose_signal_ops(asked, {offer(kOutside, "mlx5_0"), offer(facts, "mlx5_1")});
  };
  EXPECT_FALSE(chosen(SignalOpsSetting::kAuto, kInside).waits);
  EXPECT_TRUE(chosen(SignalOpsSetting::kAuto, kBus).waits);
  EXPECT_TRUE(chosen(SignalOpsSetting::kAuto, kBus).atomic);
  EXPECT_TRUE(chosen(SignalOpsSetting::kAuto, kLoose).waits);
  // WRITEs are in order, but signals that add are atomics all the same.
  EXPECT_TRUE(chosen(SignalOpsSetting::kAuto, kOrderedBus).waits);
  EXPECT_FALSE(chosen(SignalOpsSetting::kAuto, kOrderedBus).atomic);
  EXPECT_TRUE(chosen(SignalOpsSetting::kWrite, kOrderedBus).waits);
  EXPECT_FALSE(chosen(SignalOpsSetting::kAtomic, kBus).waits) << "by name";
  EXPECT_TRUE(chosen(SignalOpsSetting::kStrong, kInside).waits);
  EXPECT_TRUE(chosen(SignalOpsSetting::kStrong, kOutside).atomic);
  EXPECT_EQ(chosen(SignalOpsSetting::kAuto, kBus).why,
            "set by 8-byte swaps: mlx5_1 of PE 1 may place WRITEs out of order (no ooo_sl_mask "
            "says otherwise; no dp_ordering_force); atomics wait for what is ahead of them, as on "
            "PE 1: atomics are PCI Express AtomicOps, which may pass writes ahead of them "
            "(pci_atomic)");
  EXPECT_NE(chosen(SignalOpsSetting::kAtomic, kBus).why.find("; but on PE 1: atomics are PCI"),
            std::string::npos);
}

TEST(SignalOps, QueuesTakeAnyOrderWhereNothingReliesOnOne) {
  const auto any = [](SignalOpsSetting asked, const PlacementFacts& facts) {
    return choose_signal_ops(asked, {offer(facts, "mlx5_0")}).any_order();
  };
  EXPECT_TRUE(any(SignalOpsSetting::kAuto, kForces));
  EXPECT_TRUE(any(SignalOpsSetting::kStrong, kInside));
  EXPECT_FALSE(any(SignalOpsSetting::kWrite, kForces));
  EXPECT_FALSE(any(SignalOpsSetting::kAuto, kOutside));
  EXPECT_FALSE(any(SignalOpsSetting::kAtomic, kOutside)) << "puts keep the order that there is";
}

TEST(SignalOps, ThePeTellsOfItsNicThatOrdersLeast) {
  const PlacementOffer loosest = least_ordered(
      {offer(kSilent, "mlx5_0"), offer({.atomics = nic::AtomicOrder::kBus}, "mlx5_1")});
  EXPECT_EQ(loosest.facts.atomics, nic::AtomicOrder::kBus);
  const PlacementOffer least = least_ordered(
      {offer(kOutside, "mlx5_0"), offer(kSilent, "mlx5_1"), offer(kForces, "mlx5_2")});
  EXPECT_STREQ(least.nic, "mlx5_1");
}

}  // namespace
}  // namespace peal
