// SPDX-License-Identifier: Apache-2.0
//
// Texts that are fault plans, and texts that are not: each error names line, word and remedy.
#include "softnic/engine/fault_plan.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

namespace peal::softnic {
namespace {

using Trigger = FaultRule::Trigger;

std::string error_of(std::string_view text) {
  try {
    parse_fault_plan(text);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "accepted";
}

TEST(FaultPlan, OfNothingHasNoFaults) {
  for (const char* text : {"", "\n\n", "  # only words\n;;\t;", "seed=3"}) {
    EXPECT_EQ(parse_fault_plan(text).count, 0u) << text;
  }
}

TEST(FaultPlan, PlacesAFaultAtAWqe) {
  const FaultPlan plan = parse_fault_plan("qp=0x42 wqe=5 fault=syndrome:0x13");
  ASSERT_EQ(plan.count, 1u);
  EXPECT_EQ(plan.rule[0].kind, FaultKind::kSyndrome);
  EXPECT_EQ(plan.rule[0].trigger, Trigger::kWqe);
  EXPECT_EQ(plan.rule[0].qpn, 0x42u);
  EXPECT_EQ(plan.rule[0].at, 5u);
  EXPECT_EQ(plan.rule[0].syndrome, 0x13);
  EXPECT_EQ(plan.rule[0].chance, FaultRule::kAlways);
}

TEST(FaultPlan, PlacesAFaultAtADoorbellOfAnyQueue) {
  const FaultPlan plan = parse_fault_plan("doorbell=* percent=25 fault=delay ms=3");
  ASSERT_EQ(plan.count, 1u);
  EXPECT_EQ(plan.rule[0].kind, FaultKind::kDelayDoorbell);
  EXPECT_EQ(plan.rule[0].trigger, Trigger::kDoorbell);
  EXPECT_EQ(plan.rule[0].qpn, 0u);
  EXPECT_EQ(plan.rule[0].at, 0u);
  EXPECT_EQ(plan.rule[0].ns, 3'000'000u);
  EXPECT_EQ(plan.rule[0].chance, FaultRule::kAlways / 4);
}

TEST(FaultPlan, PlacesAFaultInTime) {
  const FaultPlan plan = parse_fault_plan("after_ms=0 fault=port_down ms=20");
  ASSERT_EQ(plan.count, 1u);
  EXPECT_EQ(plan.rule[0].kind, FaultKind::kPortDown);
  EXPECT_EQ(plan.rule[0].trigger, Trigger::kTime);
  EXPECT_EQ(plan.rule[0].after_ns, 0u);
  EXPECT_EQ(plan.rule[0].ns, 20'000'000u);
}

TEST(FaultPlan, HasManyLinesInTheirOrder) {
  const FaultPlan plan = parse_fault_plan(
      "seed=7  # of percent=\r\n"
      "wqe=1 fault=lose_ack times=2; wqe=2 fault=lose_request\n"
      "  wqe=3 fault=rnr times=3 ;wqe=4 fault=kill");
  EXPECT_EQ(plan.seed, 7u);
  ASSERT_EQ(plan.count, 4u);
  EXPECT_EQ(plan.rule[0].times, 2u);
  EXPECT_EQ(plan.rule[1].times, 0u);
  EXPECT_EQ(plan.rule[2].kind, FaultKind::kNotReady);
  EXPECT_EQ(plan.rule[3].kind, FaultKind::kKill);
}

TEST(FaultPlan, KnowsEachFault) {
  for (const char* line :
       {"doorbell=1 fault=drop", "doorbell=1 fault=delay ms=1", "doorbell=1 fault=duplicate",
        "doorbell=1 fault=reorder ms=1", "wqe=1 fault=stall", "wqe=1 fault=stall ms=1",
        "wqe=1 fault=lose_ack", "wqe=1 fault=lose_request", "wqe=1 fault=rnr",
        "wqe=1 fault=syndrome:34", "wqe=1 fault=flush_storm", "wqe=1 fault=late_cqe ms=1",
        "wqe=1 fault=late_data ms=1", "wqe=1 fault=port_down", "after_ms=1 fault=port_down",
        "wqe=1 fault=nic_stop", "after_ms=1 fault=nic_stop", "wqe=1 fault=kill",
        "after_ms=1 fault=kill"}) {
    EXPECT_EQ(error_of(line), "accepted") << line;
  }
}

TEST(FaultPlan, RefusesWhatIsNone) {
  struct Wrong {
    const char* text;
    const char* part;  // of the error
  };
  for (const Wrong& wrong : {
           Wrong{"wqe=1 fault=drop", "placed by doorbell="},
           Wrong{"doorbell=1 fault=stall", "placed by wqe="},
           Wrong{"after_ms=1 fault=stall", "placed by wqe="},
           Wrong{"fault=kill", "placed by wqe= or after_ms="},
           Wrong{"wqe=1 after_ms=1 fault=kill", "nothing else"},
           Wrong{"wqe=1 doorbell=1 fault=drop", "nothing else"},
           Wrong{"after_ms=1 qp=3 fault=kill", "without qp="},
           Wrong{"after_ms=1 percent=3 fault=kill", "percent="},
           Wrong{"wqe=1", "fault=NAME"},
           Wrong{"wqe=1 fault=sleep", "a fault is one of drop, delay"},
           Wrong{"wqe=1 fault", "a fault is one of"},
           Wrong{"wqe=1 fault=kill fault=kill", "one fault"},
           Wrong{"wqe=1 wqe=2 fault=kill", "\"wqe=2\": this word stands twice"},
           Wrong{"wqe=0 fault=kill", "from 1"},
           Wrong{"wqe=-1 fault=kill", "from 1"},
           Wrong{"wqe=1x fault=kill", "from 1"},
           Wrong{"wqe=18446744073709551616 fault=kill", "from 1"},
           Wrong{"wqe= fault=kill", "\"wqe=\""},
           Wrong{"qp=0x1000000 wqe=1 fault=kill", "16777215"},
           Wrong{"percent=0 wqe=1 fault=kill", "1 to 100"},
           Wrong{"percent=101 wqe=1 fault=kill", "1 to 100"},
           Wrong{"wqe=1 fault=syndrome", "syndrome:N"},
           Wrong{"wqe=1 fault=syndrome:0", "syndrome:N"},
           Wrong{"wqe=1 fault=syndrome:0x100", "syndrome:N"},
           Wrong{"wqe=1 fault=kill:9", "only syndrome has a value"},
           Wrong{"doorbell=1 fault=delay", "needs ms="},
           Wrong{"wqe=1 fault=late_cqe", "needs ms="},
           Wrong{"wqe=1 fault=late_data", "needs ms="},
           Wrong{"wqe=1 fault=kill ms=1", "takes no ms="},
           Wrong{"wqe=1 fault=stall times=1", "takes no times="},
           Wrong{"wqe=1 fault=stall ms=0", "from 1"},
           Wrong{"wqe=1 fault=stall ms=86400001", "to 86400000"},
           Wrong{"seed=1 wqe=1 fault=kill", "line of its own"},
           Wrong{"seed=x", "a whole number"},
           Wrong{"when=1 fault=kill", "a word is seed="},
           Wrong{"\x01\xff", "\"??\""},
       }) {
    const std::string error = error_of(wrong.text);
    EXPECT_NE(error.find(wrong.part), std::string::npos) << wrong.text << " -> " << error;
    EXPECT_TRUE(error.starts_with("line 1: ")) << error;
  }
}

TEST(FaultPlan, NamesTheLineThatIsWrong) {
  EXPECT_TRUE(error_of("wqe=1 fault=kill\n\n# no\nwqe=1 fault=rest").starts_with("line 4: "));
}

TEST(FaultPlan, HasAnEnd) {
  std::string text;
  for (uint32_t i = 0; i < FaultPlan::kMaxRules; ++i) text += "wqe=1 fault=kill;";
  EXPECT_EQ(parse_fault_plan(text).count, FaultPlan::kMaxRules);
  EXPECT_NE(error_of(text + "wqe=1 fault=kill").find("at most 64"), std::string::npos);
  EXPECT_NE(error_of(std::string(65537, '\n')).find("65536"), std::string::npos);
}

}  // namespace
}  // namespace peal::softnic
