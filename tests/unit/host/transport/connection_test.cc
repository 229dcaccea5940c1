// SPDX-License-Identifier: Apache-2.0
//
// What two ends make of each other, on the fake NIC.
#include "host/transport/connection.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "tests/support/fake_rdma_fixture.h"

namespace peal {
namespace {

class Connection : public nic::FakeRdmaTest {
 protected:
  /// An end on a NIC as the fake is now.
  Endpoint end(uint32_t qpn = 0x100) { return endpoint_of(nic::Device(library(), ""), qpn); }

  void be_roce() {
    fake_.link_layer = IBV_LINK_LAYER_ETHERNET;
    fake_.lid = 0;
    fake_.gids = {{"fe80::7", IBV_GID_TYPE_ROCE_V1},
                  {"fe80::7", IBV_GID_TYPE_ROCE_V2},
                  {"::ffff:10.0.0.7", IBV_GID_TYPE_ROCE_V1},
                  {"::ffff:10.0.0.7", IBV_GID_TYPE_ROCE_V2}};
  }
};

nic::Gid gid(const char* text) { return nic::Gid::parse(text).value(); }

// Fails at 438a779, which took each depth for the other: a NIC that answers fewer READs than it has
// in flight then refuses to become ready to receive. log_max_ra_req_qp counts requests that come
// (Linux: max_qp_rd_atom), log_max_ra_res_qp responses that are waited for (max_qp_init_rd_atom).
TEST_F(Connection, TellsTheOtherEndWhatItNeeds) {
  fake_.general_capabilities[10] = 2u << 16 | 3;  // 4 READs in flight towards here, 8 from here
  const Endpoint mine = end(0xabcdef);
  EXPECT_EQ(mine.qpn, 0xabcdefu);
  EXPECT_EQ(mine.lid, 0x1234);
  EXPECT_EQ(mine.mtu, 5);
  EXPECT_EQ(mine.log_initiator_depth, 3);
  EXPECT_EQ(mine.log_responder_depth, 2);
}

TEST_F(Connection, TellsThePartition) {
  EXPECT_EQ(end().key, 0xffff);
  fake_.pkeys = {0x7fff, 0, 0x8001};
  EXPECT_EQ(end().key, 0x8001);
}

// Fails at 438a779: all queues of a bond left by the port that the firmware chose, often one.
TEST_F(Connection, SpreadsQueuesOverThePortsOfABond) {
  EXPECT_EQ(lag_port(nic::Device(library(), ""), 0, 0), 0);
  fake_.general_capabilities[15] |= 1u << 7;  // init2_lag_tx_port_affinity
  fake_.general_capabilities[19] = 2;         // num_lag_ports: of a card with two ports
  EXPECT_EQ(lag_port(nic::Device(library(), ""), 0, 0), 0) << "which nobody bonded";
  fake_.lag_state = 1;
  const nic::Device bonded(library(), "");
  std::string ports;
  for (uint32_t pe = 0; pe < 2; ++pe) {
    for (uint32_t q = 0; q < 4; ++q) ports += std::to_string(lag_port(bonded, pe, q));
  }
  EXPECT_EQ(ports, "12122121");
  fake_.general_capabilities[19] = 4;
  EXPECT_EQ(lag_port(nic::Device(library(), ""), 1, 6), 4);
}

TEST_F(Connection, LimitsReadsInFlightWhereTheNicDoesNot) {
  fake_.general_capabilities[10] = 6u << 16 | 5;
  EXPECT_EQ(end().log_initiator_depth, 4);
  EXPECT_EQ(end().log_responder_depth, 4);
}

TEST_F(Connection, TakesTheSmallerMtuAtBothEnds) {
  const nic::Device device(library(), "");
  Endpoint here = endpoint_of(device, 1);
  Endpoint there = here;
  there.mtu = 3;
  EXPECT_EQ(path_to(device, here, there).mtu, 3);
  EXPECT_EQ(path_to(device, there, here).mtu, 3);
}

TEST_F(Connection, HasNoMoreReadsInFlightThanTheOtherEndAnswers) {
  const nic::Device device(library(), "");
  Endpoint here = endpoint_of(device, 1);
  Endpoint there = here;
  here.log_initiator_depth = 4;
  here.log_responder_depth = 3;
  there.log_initiator_depth = 1;
  there.log_responder_depth = 2;
  const nic::Path out = path_to(device, here, there);
  EXPECT_EQ(out.log_initiator_depth, 2);
  EXPECT_EQ(out.log_responder_depth, 1);
  const nic::Path back = path_to(device, there, here);
  EXPECT_EQ(back.log_initiator_depth, 1);
  EXPECT_EQ(back.log_responder_depth, 2);
}

TEST_F(Connection, GoesToTheOthersLidInsideASubnet) {
  const nic::Device device(library(), "");
  const Endpoint here = endpoint_of(device, 1);
  Endpoint there = here;
  there.lid = 0x77;
  const nic::Path path = path_to(device, here, there);
  EXPECT_EQ(path.dlid, 0x77);
  EXPECT_EQ(path.port, 1);
  EXPECT_FALSE(path.global);
  EXPECT_EQ(path.udp_source_port, 0);
}

TEST_F(Connection, CarriesGidsBetweenSubnets) {
  fake_.gids = {{"fe80:0:0:1::7"}};
  const nic::Device device(library(), "");
  const Endpoint here = endpoint_of(device, 1);
  Endpoint there = here;
  there.lid = 0x77;
  there.gid = gid("fe80:0:0:2::9");
  const nic::Path path = path_to(device, here, there);
  EXPECT_TRUE(path.global);
  EXPECT_EQ(path.remote_gid, there.gid);
  EXPECT_EQ(path.hop_limit, 255);
  EXPECT_EQ(path.dlid, 0x77);
}

// Routers know a port by its forwardable LID; inside its subnet its own LID goes on counting.
TEST_F(Connection, GoesToTheForwardableLidBetweenSubnets) {
  fake_.gids = {{"fe80::7"}, {"fec0:0:11:1::7"}};
  const nic::Device device(library(), "");
  const Endpoint here = endpoint_of(device, 1);
  Endpoint there = here;
  there.lid = 0x77;
  there.gid = gid("fec0:0:22:2::9");
  EXPECT_EQ(path_to(device, here, there).dlid, 0x22);
  EXPECT_EQ(path_to(device, here, there).source_gid, 1);
  there.gid = gid("fec0:0:22:1::9");
  EXPECT_EQ(path_to(device, here, there).dlid, 0x77);
  EXPECT_FALSE(path_to(device, here, there).global);
}

TEST_F(Connection, CarriesGidsAtBothEndsWhenOneEndWantsThem) {
  const nic::Device plain(library(), "");
  const Endpoint here = endpoint_of(plain, 1);
  fake_.port_flags = IBV_QPF_GRH_REQUIRED;
  const Endpoint required = endpoint_of(nic::Device(library(), ""), 2);
  EXPECT_TRUE(path_to(plain, here, required).global);
  EXPECT_TRUE(path_to(plain, required, here).global);
  fake_.port_flags = 0;
  nic::DeviceOptions options;
  options.path.gid_index = 0;
  options.path.gid_binds = true;
  const Endpoint asked = endpoint_of(nic::Device(library(), "", options), 3);
  EXPECT_TRUE(path_to(plain, here, asked).global);
  EXPECT_TRUE(path_to(plain, asked, here).global);
  options.path.gid_binds = false;  // NCCL's: set for other clusters' sake, maybe
  EXPECT_FALSE(path_to(plain, here, endpoint_of(nic::Device(library(), "", options), 4)).global);
}

TEST_F(Connection, CarriesGidsAndAPortOnEthernet) {
  be_roce();
  nic::DeviceOptions options;
  options.path.traffic_class = 106;
  options.path.service_level = 5;
  const nic::Device device(library(), "", options);
  const Endpoint here = endpoint_of(device, 0x4d5e6f);
  Endpoint there = here;
  there.qpn = 0xfedcba;
  there.gid = gid("::ffff:10.0.0.9");
  const nic::Path path = path_to(device, here, there);
  EXPECT_EQ(path.link_layer, nic::LinkLayer::kEthernet);
  EXPECT_TRUE(path.global);
  EXPECT_EQ(path.dlid, 0);
  EXPECT_EQ(path.source_gid, 3);
  EXPECT_EQ(path.remote_gid, there.gid);
  EXPECT_EQ(path.hop_limit, 255);
  EXPECT_EQ(path.traffic_class, 106);
  EXPECT_EQ(path.service_level, 5);
  EXPECT_EQ(path.udp_source_port, 0xe692);
  EXPECT_EQ(path_to(device, there, here).udp_source_port, 0xe692);
}

TEST_F(Connection, KeepsToThePortsThatTheNicAllows) {
  be_roce();
  fake_.general_capabilities[16] |= 1u << 2;            // roce
  fake_.roce_capabilities[6] = 0xd00fu << 16 | 0xd000;  // max, min
  const nic::Device device(library(), "");
  EXPECT_EQ(device.capabilities().min_udp_port, 0xd000);
  EXPECT_EQ(device.capabilities().max_udp_port, 0xd00f);
  const Endpoint here = endpoint_of(device, 0x4d5e6f);
  Endpoint there = here;
  there.qpn = 0xfedcba;
  EXPECT_EQ(path_to(device, here, there).udp_source_port, 0xd002);  // 0x2692 in 16 ports
}

// Values by hand: the product of both numbers, folded twice to 20 bits and once to 14.
TEST(UdpSourcePort, IsTheOneThatLinuxGives) {
  EXPECT_EQ(udp_source_port(0x4d5e6f, 0xfedcba, 0xc000, 0xffff), 0xe692);
  EXPECT_EQ(udp_source_port(0x100, 0x200, 0xc000, 0xffff), 0xc008);
  EXPECT_EQ(udp_source_port(0xabcdef, 0x123456, 0xc000, 0xffff), 0xc3c8);
}

TEST(UdpSourcePort, IsTheSameAtBothEndsAndInTheRange) {
  for (uint32_t qpn = 0x80; qpn < 0x180; ++qpn) {
    const uint16_t port = udp_source_port(qpn, 2 * qpn, 49152, 49158);
    EXPECT_EQ(port, udp_source_port(2 * qpn, qpn, 49152, 49158));
    EXPECT_GE(port, 49152);
    EXPECT_LE(port, 49158);
  }
  EXPECT_EQ(udp_source_port(5, 7, 0xffff, 0xffff), 0xffff);
}

// A fixed port would lead all queues of two hosts over one of many equal links.
TEST(UdpSourcePort, SpreadsTheQueuesOfAPair) {
  std::set<uint16_t> ports;
  for (uint32_t queue = 0; queue < 64; ++queue) {
    ports.insert(udp_source_port(0x1200 + queue, 0x3400 + queue, 0xc000, 0xffff));
  }
  EXPECT_GE(ports.size(), 60u);
}

Endpoint infiniband(uint16_t lid) {
  return {.qpn = 1, .lid = lid, .mtu = 5, .gid = gid("fe80::7")};
}
Endpoint ethernet(const char* address) {
  return {.qpn = 1, .link_layer = nic::LinkLayer::kEthernet, .mtu = 3, .gid = gid(address)};
}
std::string refused(std::vector<Endpoint> ends) {
  return refusal(ErrorCode::kUnsupported, [&] { check_ends(ends, false); });
}

TEST(Ends, MeetIfTheyAreOfOneKind) {
  check_ends(std::vector<Endpoint>{}, false);
  check_ends(std::vector<Endpoint>{infiniband(1)}, false);
  check_ends(std::vector<Endpoint>{infiniband(1), infiniband(2)}, false);
  check_ends(std::vector<Endpoint>{ethernet("::ffff:10.0.0.1"), ethernet("::ffff:10.9.0.2")},
             false);
  check_ends(std::vector<Endpoint>{ethernet("fe80::1"), ethernet("fe80::2")}, false);
}

TEST(Ends, OfDifferentLinkLayersAreNamed) {
  EXPECT_EQ(refused({infiniband(5), infiniband(6), ethernet("::ffff:10.0.0.1")}),
            "PE 0 (InfiniBand, LID 5, MTU 4096) and PE 2 (Ethernet, GID ::ffff:10.0.0.1, MTU 1024) "
            "cannot be connected: InfiniBand and Ethernet do not meet; choose ports of one kind on "
            "all PEs by PEAL_HCA");
}

TEST(Ends, OfDifferentAddressFamiliesAreNamed) {
  expect_in(refused({ethernet("::ffff:10.0.0.1"), ethernet("2001:db8::1")}),
            {"PE 0", "PE 1", "::ffff:10.0.0.1", "2001:db8::1", "IPv4 and IPv6 addresses",
             "PEAL_GID_INDEX"});
  expect_in(refused({ethernet("fe80::1"), ethernet("2001:db8::1")}),
            {"link-local and IPv6 addresses"});
}

Endpoint end_of(Masks masks, bool asks) {
  Endpoint end = ethernet("::ffff:10.0.0.1");
  end.masks = masks;
  end.asks_masks = asks;
  return end;
}

TEST(Ends, MeetIfAllNicsKnowTheAtomicsThatKernelsPost) {
  check_ends(std::vector{end_of(Masks::kMlx5, true), end_of(Masks::kMlx5, false)}, false);
  check_ends(std::vector{end_of(Masks::kSoftware, true), end_of(Masks::kSoftware, true)}, false);
  check_ends(std::vector{end_of(Masks::kMlx5, false), end_of(Masks::kNone, false),
                         end_of(Masks::kSoftware, false)},
             false);
}

// Before, barriers of such jobs ended after all retries, in "peer does not answer".
TEST(Ends, WhoseNicDoesNotKnowTheAtomicsOfOthersAreNamed) {
  const Endpoint quiet = end_of(Masks::kMlx5, false);
  expect_in(refused({quiet, end_of(Masks::kMlx5, true), end_of(Masks::kNone, false)}),
            {"kernels of PE 1 (", "the NIC of PE 2 (", "PEAL_TRANSPORT=proxy", "PEAL_HCA"});
  expect_in(refused({end_of(Masks::kSoftware, true), end_of(Masks::kMlx5, true)}),
            {"kernels of PE 0 (", "the NIC of PE 1 ("});
}

TEST_F(Connection, TellsWhichAtomicsItPosts) {
  EXPECT_EQ(end().masks, Masks::kMlx5);
  EXPECT_EQ(end().asks_masks, 1);
  nic::DeviceOptions options;
  options.use = nic::NicUse::kVerbs;
  EXPECT_EQ(endpoint_of(nic::Device(library(), "", options), 1).asks_masks, 0);
}

Endpoint member(uint16_t key) {
  Endpoint end = infiniband(1);
  end.key = key;
  return end;
}

// Fail at 438a779: packets between such ports are dropped by the NICs without a word, and the job
// ended in transport retries.
TEST(Ends, OfOnePartitionMeetIfOneIsAFullMember) {
  check_ends(std::vector<Endpoint>{member(0x8001), member(0x8001), member(0x0001)}, false);
  check_ends(std::vector<Endpoint>{member(0x0001), member(0x8001), member(0x8001)}, false);
}

TEST(Ends, OfDifferentPartitionsAreNamed) {
  expect_in(refused({member(0xffff), member(0x7fff), member(0x8001)}),
            {"PE 0 (InfiniBand, LID 1, MTU 4096) and PE 2", "partition key 0x8001",
             "different partitions", "PEAL_PKEY"});
}

TEST(Ends, OfTwoLimitedMembersAreNamed) {
  expect_in(refused({member(0x0001), member(0x8001), member(0x0001)}),
            {"PE 0 (InfiniBand, LID 1, MTU 4096, partition key 0x0001) and PE 2",
             "two limited members", "PEAL_PKEY"});
  expect_in(refused({member(0x8001), member(0x0001), member(0x8001), member(0x0001)}),
            {"PE 1", "PE 3", "two limited members"});
}

// Where all links are made at once a limited member is refused on all PEs alike, not by itself when
// it connects its queues to itself.
TEST_F(Connection, OfALimitedMemberIsRefusedWithItselfEverywhere) {
  const std::vector<Endpoint> ends{member(0x8001), member(0x0001)};
  check_ends(ends, false);
  expect_in(refusal(ErrorCode::kUnsupported, [&] { check_ends(ends, true); }),
            {"PE 1 (InfiniBand, LID", "partition key 0x0001", "with itself", "PEAL_PKEY"});
}

// What check_ends() lets pass: a limited member by itself, which has queues to itself too.
TEST_F(Connection, OfALimitedMemberWithItselfIsRefused) {
  fake_.pkeys = {0x0001};
  const nic::Device device(library(), "");
  const Endpoint here = endpoint_of(device, 1);
  expect_in(refusal(ErrorCode::kUnsupported, [&] { path_to(device, here, here); }),
            {"mlx5_0", "partition key 0x0001", "two limited members"});
}

}  // namespace
}  // namespace peal
