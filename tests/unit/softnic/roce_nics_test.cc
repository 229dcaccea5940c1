// SPDX-License-Identifier: Apache-2.0
//
// NICs of two processes on fabrics of their own, which reach each other by UDP between two loopback
// addresses and in no other way.
#include <algorithm>
#include <cstdlib>
#include <string>

#include "base/internet.h"
#include "tests/unit/softnic/loopback.h"
#include "tests/unit/softnic/processes.h"

namespace peal::softnic::testing {
namespace {

/// For PEAL_SOFTNIC_UDP.
std::string addresses() {
  std::string list;
  for (const roce::Address& one : loopback_addresses()) {
    list += (list.empty() ? "" : ",") + text_of(one.byte);
  }
  return list;
}

PresentedDevice over_ethernet() { return parse_presentation("link=roce mtu=4096").at(0); }

/// From here on NICs of this process are on a fabric that no other process is on.
void stay_apart() {
  const std::string fabric = "apart-" + std::to_string(getpid());
  ASSERT_EQ(setenv("PEAL_SOFTNIC_FABRIC", fabric.c_str(), 1), 0);
}

class RoceNics : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(setenv("PEAL_SOFTNIC_UDP", addresses().c_str(), 1), 0); }
  void TearDown() override {
    unsetenv("PEAL_SOFTNIC_UDP");
    unsetenv("PEAL_SOFTNIC_FABRIC");
  }
};

std::array<uint8_t, 16> udp_gid(const SoftwareNic& nic) {
  for (const GidTableEntry& gid : nic.gids()) {
    if (gid.used && gid.network == Network::kRoceV2 && is_ipv4(gid.raw)) return gid.raw;
  }
  ADD_FAILURE() << "no address";
  return {};
}

uint16_t lid_behind(const SoftwareNic& nic, const std::array<uint8_t, 16>& gid) {
  uint8_t raw[16];
  std::copy(gid.begin(), gid.end(), raw);
  const auto mac = nic.router().resolve(raw, Network::kRoceV2);
  return mac ? lid_of(*mac) : uint16_t{0};
}

/// What a peer must know.
struct FarCard {
  std::array<uint8_t, 16> gid;
  uint32_t qpn;
  uint32_t key;
};

/// A NIC with one queue pair and one region.
struct FarStation {
  explicit FarStation(size_t bytes = 1 << 16)
      : nic(SoftwareNic::open(over_ethernet())),
        pd(nic->allocate_pd().number),
        cq(*nic, {.log_entries = 10}),
        receive_cq(*nic, {}),
        memory(*nic, pd, bytes),
        qp(*nic, pd, cq, receive_cq, {}) {
    // An engine that shares a CPU with six others answers late.
    qp.attributes.ack_timeout = 20;
    qp.attributes.retry_count = 7;
    qp.attributes.network = Network::kRoceV2;
  }
  void connect(Line& line) {
    line.say(FarCard{udp_gid(*nic), qp.qpn, memory.key});
    peer = line.hear<FarCard>();
    qp.connect(lid_behind(*nic, peer.gid), peer.qpn);
    line.meet();
  }
  SeenCqe run(const Wqe& wqe) {
    qp.post(wqe);
    qp.ring();
    return cq.await();
  }
  void stop_nic() const { static_cast<void>(qp.query()); }

  std::shared_ptr<SoftwareNic> nic;
  uint32_t pd;
  Cq cq;
  Cq receive_cq;
  Region memory;
  Qp qp;
  FarCard peer = {};
};

TEST_F(RoceNics, OperationsCrossFromAddressToAddress) {
  Process other([](Line& line) {
    stay_apart();
    FarStation station;
    station.memory.store<uint64_t>(64, 0x5566);
    station.connect(line);
    EXPECT_TRUE(eventually([&] { return station.memory.load<uint64_t>(128) == 0xabcdef; }));
    line.meet();
    EXPECT_EQ(station.memory.load<uint64_t>(0), 15u);
  });
  stay_apart();
  FarStation station;
  station.connect(other.line());
  const uint32_t key = station.peer.key;
  const auto does = [&](const Wqe& wqe) { return station.run(wqe).kind == CqeOpcode::kRequester; };
  EXPECT_TRUE(does(read_into(64, key, 8, station.memory.key, 256)));
  EXPECT_EQ(station.memory.load<uint64_t>(256), 0x5566u);
  for (uint64_t i = 0; i < 5; ++i) {
    EXPECT_TRUE(does(fetch_add(0, key, 3, station.memory.key, 8)));
    EXPECT_EQ(station.memory.load<uint64_t>(8), 3 * i);
  }
  EXPECT_TRUE(does(write_inline<uint64_t>(128, key, 0xabcdef)));
  other.line().meet();
}

TEST_F(RoceNics, BothDirectionsMoveLargePayloadsAtOnce) {
  static constexpr size_t kBytes = 8 << 20;
  const auto side = [](Line& line, uint8_t mine, uint8_t theirs) {
    stay_apart();
    FarStation station(2 * kBytes);
    std::memset(station.memory.pages.data(), mine, kBytes);
    station.connect(line);
    const SeenCqe cqe =
        station.run(write_from(kBytes, station.peer.key, kBytes, station.memory.key, 0));
    EXPECT_EQ(cqe.kind, CqeOpcode::kRequester);
    line.meet();
    station.stop_nic();
    const auto* got = reinterpret_cast<const uint8_t*>(station.memory.pages.data() + kBytes);
    EXPECT_EQ(std::count(got, got + kBytes, theirs), static_cast<long>(kBytes));
    std::memset(station.memory.pages.data(), 0, kBytes);
    const SeenCqe read =
        station.run(read_into(kBytes, station.peer.key, kBytes, station.memory.key, 0));
    EXPECT_EQ(read.kind, CqeOpcode::kRequester);
    station.stop_nic();
    const auto* back = reinterpret_cast<const uint8_t*>(station.memory.pages.data());
    EXPECT_EQ(std::count(back, back + kBytes, mine), static_cast<long>(kBytes));
    line.meet();
  };
  Process other([&](Line& line) { side(line, 0x11, 0x22); });
  side(other.line(), 0x22, 0x11);
}

TEST_F(RoceNics, AHostThatIsGoneIsNamedInTheEnd) {
  Process other([](Line& line) {
    stay_apart();
    FarStation station;
    station.connect(line);
    line.meet();
    line.hear<char>();
  });
  stay_apart();
  FarStation station;
  station.qp.attributes.ack_timeout = 8;
  station.qp.attributes.retry_count = 3;
  station.connect(other.line());
  other.line().meet();
  other.kill();
  const SeenCqe cqe = station.run(write_inline<uint64_t>(128, station.peer.key, 1));
  EXPECT_EQ(cqe.syndrome, Syndrome::kTransportRetryExceeded);
}

TEST_F(RoceNics, EachTakesTheFirstAddressThatIsFree) {
  stay_apart();
  std::vector<std::shared_ptr<SoftwareNic>> nics;
  std::vector<std::array<uint8_t, 16>> gids;
  for (int i = 0; i < 4; ++i) {
    nics.push_back(SoftwareNic::open(over_ethernet()));
    gids.push_back(udp_gid(*nics.back()));
    EXPECT_EQ(std::count(gids.begin(), gids.end(), gids.back()), 1);
  }
  try {
    SoftwareNic::open(over_ethernet());
    FAIL() << "a fifth NIC found an address";
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code().value(), EADDRINUSE);
    EXPECT_NE(std::string(error.what()).find(addresses().substr(0, addresses().find(','))),
              std::string::npos)
        << error.what();
  }
  // They share a fabric: no datagram goes from one to the other.
  EXPECT_EQ(lid_behind(*nics[0], gids[1]), nics[1]->lid());
  EXPECT_EQ(nics[0]->fabric(), nics[1]->fabric());
}

TEST_F(RoceNics, InfiniBandHasNoUdp) {
  stay_apart();
  const auto nic = SoftwareNic::open();
  EXPECT_EQ(nic->gids().size(), 1u);
}

TEST_F(RoceNics, WithoutASettingThereIsNoneEither) {
  unsetenv("PEAL_SOFTNIC_UDP");
  stay_apart();
  const auto nic = SoftwareNic::open(over_ethernet());
  const auto gid = udp_gid(*nic);
  EXPECT_EQ(gid[12], 10);
  EXPECT_EQ(gid[13], 112);
  auto beyond = gid;
  beyond[12] = 127;
  EXPECT_EQ(lid_behind(*nic, beyond), 0);
}

TEST_F(RoceNics, AnAddressMayBeInBrackets) {
  ASSERT_EQ(setenv("PEAL_SOFTNIC_UDP", "[fd00::1],fd00::1", 1), 0);
  const auto udp = Settings::from_environment().udp;
  ASSERT_EQ(udp.size(), 2u);
  EXPECT_EQ(udp[0], udp[1]);
}

TEST_F(RoceNics, WhatIsNoAddressIsAnError) {
  stay_apart();
  for (const char* wrong : {"", "here", "127.0.0.1,", "127.0.0.300", "::", "fe80::1", "ff02::1",
                            "::ffff:127.0.0.1", "0.0.0.0", "224.0.0.1"}) {
    ASSERT_EQ(setenv("PEAL_SOFTNIC_UDP", wrong, 1), 0);
    EXPECT_THROW(Settings::from_environment(), std::invalid_argument) << wrong;
  }
  ASSERT_EQ(setenv("PEAL_SOFTNIC_UDP", "203.0.113.9", 1), 0);  // of no interface here
  EXPECT_THROW(SoftwareNic::open(over_ethernet()), std::system_error);
}

}  // namespace
}  // namespace peal::softnic::testing
