// SPDX-License-Identifier: Apache-2.0
//
// The three transitions that connect a queue pair, as the NIC receives them: whole mailboxes, byte
// by byte, for each kind of path. The bytes were written down from the layout of the commands (PRM:
// QPC at 0x18, its primary address path at 0x30; Linux: mlx5_ifc.h, mlx5_set_path), not taken from
// a run. Paths come from two ends that met, as in a job.
#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "host/nic/mlx5/queue_pair.h"
#include "host/transport/connection.h"
#include "tests/support/fake_rdma_fixture.h"

namespace peal {
namespace {

using Bytes = std::vector<uint8_t>;

constexpr size_t kMailboxBytes = 272;

/// A mailbox that is zero but for what is written: offset and bytes in hexadecimal.
Bytes mailbox(const std::vector<std::pair<size_t, std::string>>& written) {
  Bytes bytes(kMailboxBytes);
  for (const auto& [offset, text] : written) {
    std::string digits;
    for (const char letter : text) {
      if (letter != ' ') digits += letter;
    }
    for (size_t i = 0; i < digits.size(); i += 2) {
      bytes.at(offset + i / 2) = static_cast<uint8_t>(std::stoi(digits.substr(i, 2), nullptr, 16));
    }
  }
  return bytes;
}

void expect_mailbox(const std::vector<uint32_t>& words, const Bytes& expected) {
  ASSERT_EQ(words.size() * 4, expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(words[i / 4] >> (24 - i % 4 * 8) & 0xff, expected[i]) << "byte " << std::hex << i;
  }
}

nic::Gid gid(const char* text) { return nic::Gid::parse(text).value(); }

// Numbers of the fake: qpn 0x4d5e6f, PSNs below. The other end is queue pair 0xfedcba.
class Mlx5Path : public nic::FakeRdmaTest {
 protected:
  void be_roce(const char* address) {
    fake_.link_layer = IBV_LINK_LAYER_ETHERNET;
    fake_.lid = 0;
    fake_.gids = {{"fe80::7", IBV_GID_TYPE_ROCE_V1},
                  {"fe80::7", IBV_GID_TYPE_ROCE_V2},
                  {address, IBV_GID_TYPE_ROCE_V1},
                  {address, IBV_GID_TYPE_ROCE_V2}};
  }

  /// Connects a queue pair of a NIC as the fake is now to `remote`.
  void connect(const Endpoint& remote, const nic::PathSettings& settings = {},
               nic::QueueOrder order = nic::QueueOrder::kDefault) {
    const nic::Device device(library(), "", {.list = {}, .path = settings});
    const nic::ProtectionDomain domain(device);
    const nic::RegisterPage uar(device);
    alignas(64) std::byte memory[64] = {};
    const nic::QueueRegion umem(device, {memory, sizeof memory});
    const auto place = nic::QueuePlace::of(nic::QueueMemoryLayout{1024}, umem, 0);
    const nic::DrivenCompletionQueue cq(device, uar, place);
    nic::DrivenQueuePair pair(device, domain, uar, cq, place,
                              {.depth = 1024, .settings = {.order = order}});
    const nic::Path path = path_to(device, endpoint_of(device, pair.number()), remote);
    fake_.commands.clear();
    pair.to_init();
    pair.to_rtr({.qpn = remote.qpn, .psn = 0x123456, .path = path});
    pair.to_rts(path, 0x654321);
    ASSERT_EQ(fake_.commands.size(), 3u);
  }

  const std::vector<uint32_t>& to_init() const { return fake_.commands.at(0); }
  const std::vector<uint32_t>& to_rtr() const { return fake_.commands.at(1); }
  const std::vector<uint32_t>& to_rts() const { return fake_.commands.at(2); }
};

TEST_F(Mlx5Path, OfInfiniBandInOneSubnet) {
  fake_.ports = 2;
  fake_.dead_ports = 1u << 1;
  nic::PathSettings settings;
  settings.service_level = 3;
  settings.traffic_class = 106;  // goes into a GRH, and here is none
  settings.ack_timeout = 18;
  settings.retry_count = 5;
  connect({.qpn = 0xfedcba,
           .lid = 0xbeef,
           .mtu = 3,
           .log_responder_depth = 2,
           .log_initiator_depth = 3,
           .gid = gid("fe80::9")},
          settings);
  expect_mailbox(to_init(), mailbox({{0x00, "0502"},
                                     {0x08, "004d5e6f"},     // qpn
                                     {0x18, "00001800"},     // pm_state migrated
                                     {0x54, "00020000"},     // port 2
                                     {0xa8, "0003e000"}}));  // atomic_mode 3, rre, rwe, rae
  expect_mailbox(to_rtr(), mailbox({{0x00, "0503"},
                                    {0x08, "004d5e6f"},     // qpn
                                    {0x20, "7e000000"},     // mtu 1024, log_msg_max 30
                                    {0x2c, "00fedcba"},     // remote_qpn
                                    {0x34, "0000beef"},     // rlid, no grh
                                    {0x54, "03020000"},     // sl 3, port 2
                                    {0xa8, "00600000"},     // log_rra_max 3
                                    {0xac, "0c123456"}}));  // min_rnr_nak 12, next_rcv_psn
  expect_mailbox(to_rts(),
                 mailbox({{0x00, "0504"},
                          {0x08, "004d5e6f"},     // qpn
                          {0x38, "90000000"},     // ack_timeout 18
                          {0x88, "8045e000"},     // an ACK for 2^8, log_sra_max 2, retry 5, rnr 7
                          {0x90, "00654321"}}));  // next_send_psn
}

// Adaptive routing is asked for where both ends can place WRITEs as they arrive, and somebody wants
// it. Fails at 9fdc4a9: nobody ever asked.
TEST_F(Mlx5Path, OfAQueuePairThatTakesAnyOrderWhereBothEndsCan) {
  using nic::QueueOrder;
  const auto asks = [this](QueueOrder order, bool there) {
    connect({.qpn = 0xfedcba, .lid = 0xbeef, .mtu = 3, .any_order = there, .gid = gid("fe80::9")},
            {}, order);
    EXPECT_EQ(to_rtr()[0xa8 / 4] & 8, 0u) << "dp_ordering_1";
    return to_rtr()[0x1c / 4] >> 24;
  };
  EXPECT_EQ(asks(QueueOrder::kAny, true), 0u);
  fake_.general_capabilities[14] |= 1u << 21;  // dp_ordering_ooo_rw_rc
  EXPECT_EQ(asks(QueueOrder::kAny, true), 2u) << "dp_ordering_0";
  EXPECT_EQ(asks(QueueOrder::kAny, false), 0u);
  EXPECT_EQ(asks(QueueOrder::kDefault, true), 0u);
  EXPECT_EQ(asks(QueueOrder::kForced, true), 1u);
}

// dp_ordering_force without dp_ordering_0 and _1: WRITEs are placed in the order of the InfiniBand
// architecture whatever the fabric does. At 438a779 no queue pair could ask for it.
TEST_F(Mlx5Path, OfAQueuePairThatForcesOrder) {
  connect({.qpn = 0xfedcba,
           .lid = 0xbeef,
           .mtu = 3,
           .log_responder_depth = 3,
           .log_initiator_depth = 3,
           .gid = gid("fe80::9")},
          {}, nic::QueueOrder::kForced);
  expect_mailbox(to_rtr(), mailbox({{0x00, "0503"},
                                    {0x08, "004d5e6f"},     // qpn
                                    {0x1c, "01000000"},     // dp_ordering_force
                                    {0x20, "7e000000"},     // mtu 1024, log_msg_max 30
                                    {0x2c, "00fedcba"},     // remote_qpn
                                    {0x34, "0000beef"},     // rlid
                                    {0x54, "00010000"},     // port 1
                                    {0xa8, "00600000"},     // log_rra_max 3
                                    {0xac, "0c123456"}}));  // min_rnr_nak 12, next_rcv_psn
}

TEST_F(Mlx5Path, OfInfiniBandBetweenSubnets) {
  fake_.gids = {{"fe80::7"}, {"fec0:0:11:1:e42:a1ff:fe00:7"}};
  nic::PathSettings settings;
  settings.service_level = 15;
  settings.traffic_class = 0x6a;
  connect({.qpn = 0xfedcba,
           .lid = 0xbeef,
           .mtu = 5,
           .log_responder_depth = 4,
           .log_initiator_depth = 4,
           .gid = gid("fec0:0:22:2:e42:a1ff:fe00:9")},
          settings);
  expect_mailbox(to_rtr(), mailbox({{0x00, "0503"},
                                    {0x08, "004d5e6f"},
                                    {0x20, "be000000"},          // mtu 4096
                                    {0x2c, "00fedcba"},          //
                                    {0x34, "00800022"},          // grh; rlid is the forwardable one
                                    {0x38, "000100ff"},          // src_addr_index 1, hop_limit 255
                                    {0x3c, "06a00000"},          // tclass 0x6a, flow_label 0
                                    {0x40, "fec0000000220002"},  // rgid: prefix
                                    {0x48, "0e42a1fffe000009"},  //       port
                                    {0x54, "0f010000"},          // sl 15, port 1
                                    {0xa8, "00800000"},          // log_rra_max 4
                                    {0xac, "0c123456"}}));
  EXPECT_EQ(fake_.ah.port_num, 0) << "nobody asked for a MAC";
}

TEST_F(Mlx5Path, OfRoceOverIpv4) {
  be_roce("::ffff:10.0.0.7");
  nic::PathSettings settings;
  settings.service_level = 5;
  settings.traffic_class = 0x6a;  // DSCP 26
  connect({.qpn = 0xfedcba,
           .link_layer = nic::LinkLayer::kEthernet,
           .mtu = 3,
           .log_responder_depth = 4,
           .log_initiator_depth = 4,
           .gid = gid("::ffff:10.0.0.9")},
          settings);
  expect_mailbox(to_init(), mailbox({{0x00, "0502"},
                                     {0x08, "004d5e6f"},
                                     {0x18, "00001800"},
                                     {0x54, "00010000"},
                                     {0xa8, "0003e000"}}));
  expect_mailbox(to_rtr(), mailbox({{0x00, "0503"},
                                    {0x08, "004d5e6f"},
                                    {0x20, "7e000000"},          // mtu 1024
                                    {0x2c, "00fedcba"},          //
                                    {0x38, "000300ff"},          // src_addr_index 3, hop_limit 255
                                    {0x3c, "06a00000"},          // tclass 0x6a
                                    {0x48, "0000ffff0a000009"},  // rgid, its second half
                                    {0x50, "001ae692"},          // dscp 26, udp_sport
                                    {0x54, "50010c42"},          // eth_prio 5, port 1, rmac
                                    {0x58, "a1000007"},          //
                                    {0xa8, "00800000"},
                                    {0xac, "0c123456"}}));
  expect_mailbox(to_rts(),
                 mailbox({{0x00, "0504"},
                          {0x08, "004d5e6f"},
                          {0x38, "a0000000"},  // ack_timeout 20
                          {0x88, "8087e000"},  // an ACK for 2^8, log_sra_max 4, retry 7, rnr 7
                          {0x90, "00654321"}}));
}

TEST_F(Mlx5Path, OfRoceOverIpv6) {
  be_roce("2001:db8::7");
  fake_.general_capabilities[16] |= 1u << 2;            // roce
  fake_.roce_capabilities[6] = 0xd00fu << 16 | 0xd000;  // source ports, max and min
  connect({.qpn = 0xfedcba,
           .link_layer = nic::LinkLayer::kEthernet,
           .mtu = 5,
           .log_responder_depth = 1,
           .log_initiator_depth = 0,
           .gid = gid("2001:db8:1:2:3:4:5:9")});
  expect_mailbox(to_rtr(), mailbox({{0x00, "0503"},
                                    {0x08, "004d5e6f"},
                                    {0x20, "be000000"},
                                    {0x2c, "00fedcba"},
                                    {0x38, "000300ff"},
                                    {0x40, "20010db800010002"},  // rgid
                                    {0x48, "0003000400050009"},  //
                                    {0x50, "0000d002"},          // dscp 0, udp_sport
                                    {0x54, "00010c42"},          // eth_prio 0, port 1, rmac
                                    {0x58, "a1000007"},          //
                                    {0xac, "0c123456"}}));       // log_rra_max 0
  expect_mailbox(to_rts(), mailbox({{0x00, "0504"},
                                    {0x08, "004d5e6f"},
                                    {0x38, "a0000000"},
                                    {0x88, "8027e000"},  // an ACK for 2^8, log_sra_max 1
                                    {0x90, "00654321"}}));
}

Endpoint roce_end() {
  return {.qpn = 0xfedcba,
          .link_layer = nic::LinkLayer::kEthernet,
          .mtu = 5,
          .gid = gid("::ffff:10.0.0.9")};
}

TEST_F(Mlx5Path, AsksForTheNextHopWithTheSameAddresses) {
  be_roce("::ffff:10.0.0.7");
  nic::PathSettings settings;
  settings.traffic_class = 8;
  settings.service_level = 1;
  connect(roce_end(), settings);
  EXPECT_EQ(fake_.ah.is_global, 1);
  EXPECT_EQ(fake_.ah.port_num, 1);
  EXPECT_EQ(fake_.ah.sl, 1);
  EXPECT_EQ(fake_.ah.grh.sgid_index, 3);
  EXPECT_EQ(fake_.ah.grh.hop_limit, 255);
  EXPECT_EQ(fake_.ah.grh.traffic_class, 8);
  const nic::Gid there = gid("::ffff:10.0.0.9");
  EXPECT_EQ(std::memcmp(fake_.ah.grh.dgid.raw, there.bytes.data(), 16), 0);
}

// Fails at 438a779: a neighbour whose link has just come up may miss the kernel's first question.
TEST_F(Mlx5Path, AsksForTheNextHopAgainOnceWhenNobodyAnswered) {
  be_roce("::ffff:10.0.0.7");
  fake_.late_ahs = 1;
  connect(roce_end());
  EXPECT_EQ(to_rtr()[22], 0xa1000007u);  // rmac
  fake_.late_ahs = 2;
  expect_in(refusal(ErrorCode::kSystem, [&] { connect(roce_end()); }),
            {"ibv_create_ah(mlx5_0", "Connection timed out"});
}

TEST_F(Mlx5Path, SaysThatThereIsNoWay) {
  be_roce("::ffff:10.0.0.7");
  fake_.refuse_ah = EHOSTUNREACH;
  expect_in(refusal(ErrorCode::kSystem, [&] { connect(roce_end()); }),
            {"ibv_create_ah(mlx5_0 port 1, GID index 3, to ::ffff:10.0.0.9)", "No route to host",
             "ping"});
}

}  // namespace
}  // namespace peal
