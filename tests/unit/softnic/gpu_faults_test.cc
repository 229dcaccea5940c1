// SPDX-License-Identifier: Apache-2.0
//
// Fault plans on the GPU engine: how they come there, what other NICs of the fabric see, and whose
// process ends. The matrix of all faults is tests/integration/faults/matrix_gpu_test.cc.
#include <algorithm>
#include <string>
#include <vector>

#include "softnic/engine/fault_plan.h"
#include "tests/unit/softnic/gpu_engine_rig.h"

namespace peal::softnic::gpu {
namespace {

/// The parts of a plan, as a NIC sends them.
std::vector<FaultRules> parts_of(const std::string& text) {
  const FaultPlan plan = parse_fault_plan(text);
  std::vector<FaultRules> parts;
  for (uint32_t first = 0; first < std::max(plan.count, 1u); first += FaultRules::kMost) {
    parts.push_back({.seed = plan.seed, .total = plan.count, .first = first, .rule = {}});
    const uint32_t left = std::min(plan.count - first, FaultRules::kMost);
    std::copy_n(plan.rule + first, left, parts.back().rule);
  }
  return parts;
}

using GpuFaults = GpuEngine;

TEST_F(GpuFaults, TakesAPlanOfFaultsInParts) {
  Pe a(directory, 1);
  Pe b(directory, 2);
  a.connect(2, b.qpn);
  b.connect(1, a.qpn);
  std::string text;
  for (uint32_t i = 1; i <= 39; ++i) text += "wqe=" + std::to_string(i) + " fault=stall ms=1\n";
  text += "wqe=40 fault=syndrome:0x22";
  const std::vector<FaultRules> parts = parts_of(text);
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_TRUE(a.client.run(parts[1]).refusal.refused()) << "the second part first";
  for (const FaultRules& part : parts) EXPECT_FALSE(a.client.run(part).refusal.refused());
  for (uint64_t i = 1; i <= 39; ++i) {
    ASSERT_EQ(a.write(8 * i, b.key, i).kind, CqeOpcode::kRequester) << i;
    ASSERT_EQ(b.data(8 * i), i);
    ASSERT_EQ(b.write(0, a.key, i).kind, CqeOpcode::kRequester) << "has no plan of its own";
  }
  EXPECT_EQ(a.write(0, b.key, 1).syndrome, Syndrome::kRemoteAborted);
}

TEST_F(GpuFaults, TellsOfAPortThatAFaultTakesDown) {
  Pe a(directory, 1);
  Pe b(directory, 2);
  a.connect(2, b.qpn);
  b.connect(1, a.qpn);
  EXPECT_EQ(b.client.run(QueryPort{}).number, 1u);
  EXPECT_FALSE(b.client.run(parts_of("after_ms=0 fault=port_down")[0]).refusal.refused());
  EXPECT_EQ(a.write(0, b.key, 1).syndrome, Syndrome::kTransportRetryExceeded);
  EXPECT_EQ(b.data(0), 0u);
  AsyncEvent event = {};
  EXPECT_TRUE(eventually([&] { return b.client.next_event(&event); }));
  EXPECT_EQ(event.kind, AsyncEvent::Kind::kPortDown);
  EXPECT_EQ(b.client.run(QueryPort{}).number, 0u);
  EXPECT_FALSE(b.client.run(parts_of("")[0]).refusal.refused());
  EXPECT_TRUE(eventually([&] { return b.client.next_event(&event); }));
  EXPECT_EQ(event.kind, AsyncEvent::Kind::kPortUp);
}

// Its process, and not that of the engine, which serves the others too.
TEST_F(GpuFaults, KillsThePeWhosePlanSaysSo) {
  Process killed([&](Line& line) {
    Pe b(directory, 2);
    line.say(b.qpn);
    line.say(b.key);
    b.connect(1, line.hear<uint32_t>());
    line.meet();
    b.client.run(parts_of("after_ms=0 fault=kill")[0]);
    line.hear<char>();
  });
  const auto qpn = killed.line().hear<uint32_t>();
  const auto key = killed.line().hear<uint32_t>();
  Pe a(directory, 1);
  a.connect(2, qpn);
  killed.line().say(a.qpn);
  killed.line().meet();
  EXPECT_EQ(killed.await_signal(), SIGKILL);
  EXPECT_EQ(a.write(0, key, 2).syndrome, Syndrome::kTransportRetryExceeded);
  Pe c(directory, 3);
  c.connect(3, c.qpn);
  EXPECT_EQ(c.write(0, c.key, 9).kind, CqeOpcode::kRequester);
}

}  // namespace
}  // namespace peal::softnic::gpu
