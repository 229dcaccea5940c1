// SPDX-License-Identifier: Apache-2.0
//
// GIDs as people and wires write them, and which entry of a table is taken.
#include "host/nic/gid.h"

#include <gtest/gtest.h>

namespace peal::nic {
namespace {

Gid gid(const char* text) { return Gid::parse(text).value(); }

TEST(Gid, IsWhatSysfsSpellsOut) {
  const Gid spelt = gid("0000:0000:0000:0000:0000:ffff:0a01:0203");
  const std::array<uint8_t, 16> bytes = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 1, 2, 3};
  EXPECT_EQ(spelt.bytes, bytes);
  EXPECT_EQ(spelt.text(), "::ffff:10.1.2.3");
  EXPECT_EQ(gid("::ffff:10.1.2.3"), spelt);
  EXPECT_EQ(gid("fe80:0000:0000:0000:0e42:a1ff:fe00:0007").text(), "fe80::e42:a1ff:fe00:7");
}

TEST(Gid, IsNotMadeFromAnythingElse) {
  for (const char* text : {"", "fe80", "fe80::1::2", "10.0.0.1", "fe80::1/64", "fe80::g"}) {
    EXPECT_FALSE(Gid::parse(text).has_value()) << text;
  }
}

TEST(Gid, KnowsItsKind) {
  EXPECT_TRUE(gid("::").empty());
  EXPECT_FALSE(gid("::1").empty());
  EXPECT_TRUE(gid("::ffff:10.0.0.1").ipv4());
  EXPECT_FALSE(gid("::fffe:10.0.0.1").ipv4());
  EXPECT_FALSE(gid("1::ffff:10.0.0.1").ipv4());
  EXPECT_TRUE(gid("fe80::1").link_local());
  EXPECT_TRUE(gid("febf::1").link_local());
  EXPECT_FALSE(gid("fec0::1").link_local());
  EXPECT_FALSE(gid("2001:db8::1").link_local());
}

// | 10 bits fixed | 22 bits 0 | forwardable LID | subnet | port |, in site-local GIDs only.
TEST(Gid, NamesSubnetAndForwardableLid) {
  EXPECT_EQ(gid("fec0:0:77:2:e42:a1ff:fe00:7").forwardable_lid(), 0x77);
  EXPECT_EQ(gid("fec0:0:77:2:e42:a1ff:fe00:7").subnet(), 2);
  EXPECT_EQ(gid("fe80:0:77:2::7").forwardable_lid(), 0);
  EXPECT_EQ(gid("2001:db8:77:2::7").forwardable_lid(), 0);
}

TEST(Gid, HasTheTypeThatSysfsSays) {
  EXPECT_EQ(roce_type("RoCE v2"), GidType::kRoceV2);
  EXPECT_EQ(roce_type("IB/RoCE v1"), GidType::kRoceV1);
  EXPECT_EQ(roce_type(""), std::nullopt);
  EXPECT_EQ(roce_type("RoCE v3"), std::nullopt);
}

std::vector<GidEntry> table(std::initializer_list<std::pair<GidType, const char*>> entries) {
  std::vector<GidEntry> made;
  for (const auto& [type, text] : entries) {
    made.push_back({static_cast<uint32_t>(made.size()), type, gid(text)});
  }
  return made;
}

constexpr GidType kV1 = GidType::kRoceV1, kV2 = GidType::kRoceV2, kIb = GidType::kInfiniBand;

int best_roce(const std::vector<GidEntry>& entries) {
  const GidEntry* const best = best_roce_gid(entries);
  return best ? static_cast<int>(best->index) : -1;
}

// The table as Linux fills it in: link-local first, v1 before v2 of each address.
TEST(GidTable, OffersIpv4OverRoceV2First) {
  EXPECT_EQ(best_roce(table({{kV1, "fe80::7"},
                             {kV2, "fe80::7"},
                             {kV1, "2001:db8::7"},
                             {kV2, "2001:db8::7"},
                             {kV1, "::ffff:10.0.0.7"},
                             {kV2, "::ffff:10.0.0.7"},
                             {kV2, "::ffff:10.0.0.8"}})),
            5);
}

TEST(GidTable, OffersGlobalIpv6ThenLinkLocal) {
  EXPECT_EQ(best_roce(table({{kV2, "fe80::7"}, {kV1, "::ffff:10.0.0.7"}, {kV2, "2001:db8::7"}})),
            2);
  EXPECT_EQ(best_roce(table({{kV1, "::ffff:10.0.0.7"}, {kV2, "fe80::7"}, {kV2, "fe80::8"}})), 1);
}

TEST(GidTable, NeverOffersRoceV1) {
  EXPECT_EQ(best_roce(table({{kV1, "fe80::7"}, {kV1, "::ffff:10.0.0.7"}})), -1);
  EXPECT_EQ(best_roce({}), -1);
}

TEST(GidTable, OffersTheForwardableLidOnInfiniBand) {
  const auto plain = table({{kIb, "fe80::7"}, {kIb, "fec0::7"}});
  EXPECT_EQ(best_infiniband_gid(plain)->index, 0u);
  const auto routed = table({{kIb, "fe80::7"}, {kIb, "fec0:0:77:2::7"}});
  EXPECT_EQ(best_infiniband_gid(routed)->index, 1u);
  EXPECT_EQ(best_infiniband_gid({}), nullptr);
}

TEST(GidTable, IsWrittenForPeople) {
  EXPECT_EQ(describe(table({{kV1, "fe80::7"}, {kV2, "::ffff:10.0.0.7"}})),
            "index 0: RoCE v1 fe80::7, index 1: RoCE v2 ::ffff:10.0.0.7");
  EXPECT_EQ(describe(std::vector<GidEntry>{}), "none");
}

}  // namespace
}  // namespace peal::nic
