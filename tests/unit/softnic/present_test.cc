// SPDX-License-Identifier: Apache-2.0
//
// Texts that say as which hardware the software NIC presents itself, texts that do not, and the GID
// tables that follow.
#include "softnic/presentation/present.h"

#include <gtest/gtest.h>

#include <set>
#include <stdexcept>
#include <string>

namespace peal::softnic {
namespace {

constexpr uint16_t kLid = 0x0102;
constexpr uint64_t kGuid = 0x1122334455667788;

std::string error_of(std::string_view text) {
  try {
    parse_presentation(text);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "accepted";
}

PresentedDevice only(std::string_view text) {
  const Presentation presentation = parse_presentation(text);
  EXPECT_EQ(presentation.size(), 1u) << text;
  return presentation.at(0);
}

std::vector<GidTableEntry> table_of(std::string_view text) {
  return gid_table(only(text), kLid, kGuid);
}

TEST(Presentation, OfNothingIsOneInfinibandDevice) {
  for (const char* text : {"", "\n;;\n", "  # link=roce\n"}) {
    EXPECT_EQ(only(text), PresentedDevice{}) << text;
  }
  const PresentedDevice device;
  EXPECT_EQ(device.name, "mlx5_0");
  EXPECT_FALSE(device.ethernet);
  EXPECT_EQ(device.mtu, 5);
  EXPECT_EQ(device.ports, 1);
}

TEST(Presentation, HasADeviceALineOrSomeThatAreAlike) {
  const Presentation devices =
      parse_presentation("devices=2 link=roce; mtu=2048 # one more\nname=mlx5_bond_0");
  ASSERT_EQ(devices.size(), 4u);
  EXPECT_EQ(devices[0].name, "mlx5_0");
  EXPECT_EQ(devices[1].name, "mlx5_1");
  EXPECT_EQ(devices[2].name, "mlx5_2");
  EXPECT_EQ(devices[3].name, "mlx5_bond_0");
  EXPECT_TRUE(devices[1].ethernet);
  EXPECT_FALSE(devices[2].ethernet);
  EXPECT_EQ(devices[2].mtu, 4);
  EXPECT_TRUE(parse_presentation("devices=0").empty());
}

TEST(Presentation, KnowsEachWord) {
  const PresentedDevice device = only(
      "link=roce ports=2 port=2 state=armed mtu=512 udp=50000-50010 refuse=devx,uar "
      "max_qp=100 max_qp_wr=256 max_rd_atom=1 max_init_rd_atom=8 gids=v2:ipv6 bond=2 clock=real");
  EXPECT_EQ(device.ports, 2);
  EXPECT_EQ(device.port, 2);
  EXPECT_EQ(device.state, PortState::kArmed);
  EXPECT_EQ(device.mtu, 2);
  EXPECT_EQ(device.min_udp_port, 50000);
  EXPECT_EQ(device.max_udp_port, 50010);
  EXPECT_EQ(device.refuses, uint32_t{kRefuseDevx} | kRefuseUar);
  EXPECT_EQ(device.max_qp, 100u);
  EXPECT_EQ(device.log_max_qp_wr, 8);
  EXPECT_EQ(device.log_responder_depth, 0);
  EXPECT_EQ(device.log_initiator_depth, 3);
  EXPECT_EQ(device.bonded, 2);
  EXPECT_EQ(device.clock, TimestampSupport::kRealTime);
  EXPECT_EQ(only("pkeys=0xffff,0,0x8001").pkeys, (std::vector<uint16_t>{0xffff, 0, 0x8001}));
  EXPECT_EQ(only("subnet=0xfec0000000000001").subnet, 0xfec0000000000001u);
  EXPECT_TRUE(only("force_order=yes").forces_order);
  EXPECT_TRUE(only("pci_atomics=yes").pci_atomics);
  EXPECT_TRUE(only("ooo_rw=yes").any_order);
  EXPECT_TRUE(only("relaxed_only=yes").relaxed_only);
  EXPECT_EQ(only("rate=100").speed, 32u);
  EXPECT_TRUE(only("force_order=on").forces_order);
  EXPECT_FALSE(only("force_order=0").forces_order);
  EXPECT_FALSE(only("force_order=no").forces_order);
  EXPECT_FALSE(only("").orders(0)) << "nothing says so";
  EXPECT_EQ(only("ooo_sl=0xfffb").unordered_levels, 0xfffb);
  EXPECT_TRUE(only("ooo_sl=0xfffb").orders(2));
  EXPECT_FALSE(only("ooo_sl=0xfffb").orders(3));
  EXPECT_EQ(only("").dma_buf, DmaBufSupport::kNone);
  EXPECT_EQ(only("dmabuf=mr").dma_buf, DmaBufSupport::kRegions);
  EXPECT_EQ(only("dmabuf=all").dma_buf, DmaBufSupport::kAll);
  for (const char* what :
       {"devx", "peermem", "uar", "atomics", "relaxed_ordering", "umem_peermem"}) {
    EXPECT_NE(only(std::string("refuse=") + what).refuses, 0u) << what;
  }
}

TEST(Presentation, FillsTheGidTableAsADriverDoes) {
  const std::vector<GidTableEntry> ib = table_of("subnet=0xfec0000000000007");
  ASSERT_EQ(ib.size(), 1u);
  EXPECT_EQ(ib[0].network, Network::kInfiniBand);
  const std::array<uint8_t, 16> wanted = {0xfe, 0xc0, 0,    0,    0,    0,    0,    7,
                                          0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88};
  EXPECT_EQ(ib[0].raw, wanted);

  const std::vector<GidTableEntry> roce = table_of("link=roce");
  ASSERT_EQ(roce.size(), 4u);
  const std::array<uint8_t, 16> link = {0xfe, 0x80, 0,    0,    0,    0,    0, 0,
                                        0x00, 0x70, 0x65, 0xff, 0xfe, 0x61, 1, 2};
  const std::array<uint8_t, 16> ipv4 = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 112, 1, 2};
  EXPECT_EQ(roce[0].raw, link);
  EXPECT_EQ(roce[1].raw, link);
  EXPECT_EQ(roce[2].raw, ipv4);
  EXPECT_EQ(roce[3].raw, ipv4);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(roce[i].network, i % 2 == 0 ? Network::kRoceV1 : Network::kRoceV2) << i;
  }
}

TEST(Presentation, TakesGidsAsTheyAreWritten) {
  const std::vector<GidTableEntry> gids =
      table_of("link=roce gids=none,v2:10.1.2.3,v1:fd00::1,v2:ipv6,v2:::ffff:1.2.3.4");
  ASSERT_EQ(gids.size(), 5u);
  EXPECT_FALSE(gids[0].used);
  EXPECT_TRUE(is_ipv4(gids[1].raw));
  EXPECT_EQ(gids[1].raw[15], 3);
  EXPECT_EQ(gids[2].raw[0], 0xfd);
  EXPECT_EQ(gids[2].network, Network::kRoceV1);
  EXPECT_FALSE(is_ipv4(gids[3].raw));
  EXPECT_TRUE(is_ipv4(gids[4].raw));
}

TEST(Presentation, MacNamesTheNic) {
  std::set<MacAddress> macs;
  for (const uint16_t lid : {uint16_t{1}, uint16_t{255}, uint16_t{256}, uint16_t{1024}}) {
    macs.insert(mac_of(lid));
    EXPECT_EQ(lid_of(mac_of(lid)), lid);
    EXPECT_EQ(mac_of(lid)[0] & 3, 2) << "locally administered, of one";
  }
  EXPECT_EQ(macs.size(), 4u);
  EXPECT_EQ(lid_of({0x02, 0x70, 0x65, 0x62, 0, 1}), 0);
}

TEST(Presentation, ErrorsNameLineWordAndRemedy) {
  EXPECT_EQ(error_of("link=ib\nlink=token_ring"), "line 2: \"link=token_ring\": one of ib, roce");
  EXPECT_EQ(error_of("mtu=1500"), "line 1: \"mtu=1500\": one of 256, 512, 1024, 2048, 4096");
  const std::string unknown = error_of("colour=red");
  EXPECT_NE(unknown.find("\"colour=red\": a word is devices="), std::string::npos) << unknown;
  EXPECT_NE(error_of("refuse=work").find("peermem"), std::string::npos);
  EXPECT_NE(error_of("link=ib\x01").find("link=ib?"), std::string::npos);
}

TEST(Presentation, RefusesWhatCannotBeRight) {
  for (const char* text : {"devices=17",
                           "devices=9; devices=8",
                           "devices=-1",
                           "devices=",
                           "name=",
                           "name=a/b",
                           "name=x devices=2",
                           "name=mlx5_1; link=ib",
                           "link",
                           "link=IB",
                           "ports=0",
                           "ports=5",
                           "port=2",
                           "ports=2 port=3",
                           "state=up",
                           "subnet=0",
                           "subnet=fe80::",
                           "link=roce subnet=0xfec0000000000000",
                           "udp=50000-50010",
                           "link=roce udp=50000",
                           "link=roce udp=50010-50000",
                           "link=roce udp=0-1",
                           "link=roce udp=1-65536",
                           "gids=",
                           "gids=ib:link,",
                           "gids=v2:link",
                           "link=roce gids=ib:link",
                           "gids=ib:ipv4",
                           "link=roce gids=v3:link",
                           "link=roce gids=v2:10.0.0",
                           "link=roce gids=v2",
                           "refuse=",
                           "refuse=devx,",
                           "refuse=devx,,uar",
                           "max_qp=0",
                           "max_qp=131073",
                           "max_qp_wr=100",
                           "max_qp_wr=65536",
                           "max_rd_atom=0",
                           "max_rd_atom=32",
                           "max_init_rd_atom=3",
                           "clock=2",
                           "bond=2",
                           "link=roce bond=5",
                           "pkeys=",
                           "pkeys=0x10000",
                           "link=roce pkeys=1",
                           "mtu=1024 mtu=1024"}) {
    EXPECT_EQ(error_of(text).rfind("line 1: ", 0), 0u) << text << ": " << error_of(text);
  }
  std::string gids = "gids=ib:link";
  for (int i = 0; i < 16; ++i) gids += ",none";
  EXPECT_NE(error_of(gids).find("16"), std::string::npos);
  EXPECT_NE(error_of(std::string(65537, '\n')).find("65536"), std::string::npos);
}

}  // namespace
}  // namespace peal::softnic
