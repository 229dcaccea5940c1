// SPDX-License-Identifier: Apache-2.0
//
// Fields of a queue pair's context that are right or wrong by what the device presents: the format
// of time stamps, the partition, the port of a bond, the depths.
//
// Hazard: a NIC that takes any of them hides the one that a card refuses, or drops packets for.
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "tests/unit/softnic/abi/support.h"

namespace peal::softnic::abi_test {
namespace {

constexpr uint32_t kBadParam = 3;
constexpr uint32_t kOptionalLagPort = 1u << 15;

/// A queue pair of a device that `text` presents.
class SoftnicAbiContext : public SoftnicAbi {
 protected:
  void SetUp() override {}
  void TearDown() override {
    if (context != nullptr) SoftnicAbi::TearDown();
    ::unsetenv("PEAL_SOFTNIC_PRESENT");
  }
  void open(const char* text) {
    ::setenv("PEAL_SOFTNIC_PRESENT", text, 1);
    SoftnicAbi::SetUp();
    Mailbox in = cq_command();
    ASSERT_NE(create(in), nullptr);
    cqn = out.number();
  }
  void make_qp() {
    Mailbox in = qp_command(cqn);
    qp = create(in);
    ASSERT_NE(qp, nullptr) << out.status() << " " << out.syndrome();
    qpn = out.number();
  }
  uint32_t cap(uint32_t type, size_t dword, unsigned high, unsigned low) {
    Mailbox in(16, 0x100);
    in.set(1, 15, 0, type << 1 | 1);
    Mailbox answer(4112);
    EXPECT_EQ(mlx5dv_devx_general_cmd(context, in.data(), 16, answer.data(), answer.size()), 0);
    return answer.get(4 + dword, high, low);
  }
  /// A field of the context, as QUERY_QP has it.
  uint32_t field(size_t dword, unsigned high, unsigned low) {
    return query(qp, 0x50b, qpn, 272).get(kQpc + dword, high, low);
  }
  /// Status of a transition.
  uint32_t status(Mailbox in) {
    const int error = modify(qp, in);
    EXPECT_EQ(error == 0, out.status() == 0);
    return out.status();
  }
  /// INIT2RTR to itself over RoCE v2.
  Mailbox to_rtr_by_gid() {
    Mailbox in(272, 0x503);
    in.set(2, 23, 0, qpn).set(kQpc + 2, 31, 29, 3).set(kQpc + 2, 28, 24, 30);
    in.set(kQpc + 5, 23, 0, qpn).set(kQpc + 8, 23, 16, 3).set(kQpc + 8, 7, 0, 64);
    ibv_gid link = {}, ipv4 = {};
    EXPECT_EQ(ibv_query_gid(context, 1, 0, &link), 0);
    EXPECT_EQ(ibv_query_gid(context, 1, 3, &ipv4), 0);
    for (unsigned i = 0; i < 16; ++i) {
      in.set(kQpc + 10 + i / 4, 31 - 8 * (i % 4), 24 - 8 * (i % 4), ipv4.raw[i]);
    }
    const uint8_t mac[] = {static_cast<uint8_t>(link.raw[8] ^ 2),
                           link.raw[9],
                           link.raw[10],
                           link.raw[13],
                           link.raw[14],
                           link.raw[15]};
    in.set(kQpc + 14, 15, 0, 0xc000).set(kQpc + 15, 15, 0, uint32_t{mac[0]} << 8 | mac[1]);
    for (unsigned i = 0; i < 4; ++i) in.set(kQpc + 16, 31 - 8 * i, 24 - 8 * i, mac[2 + i]);
    return in.set(kQpc + 15, 23, 16, 1);
  }
  static Mailbox with_port(Mailbox in, uint32_t port, uint32_t mask = kOptionalLagPort) {
    return in.set(4, 31, 0, mask).set(kQpc, 27, 24, port);
  }

  mlx5dv_devx_obj* qp = nullptr;
  uint32_t cqn = 0;
  uint32_t qpn = 0;
};

/// Which of the formats 0 ticks, 1 default, 2 time of day, 3 a queue pair may have.
std::string formats(const std::function<bool(uint32_t)>& taken) {
  std::string all;
  for (uint32_t format = 0; format < 4; ++format) {
    if (taken(format)) all += std::to_string(format);
  }
  return all;
}

TEST_F(SoftnicAbiContext, TimestampsAreOfAClockThereIs) {
  struct {
    const char* text;
    uint32_t cap;
    const char* formats;
  } const kClocks[] = {{"clock=free", 0, "0"}, {"link=roce clock=real", 1, "12"}, {"", 2, "012"}};
  for (const auto& clock : kClocks) {
    open(clock.text);
    EXPECT_EQ(cap(0, 34, 31, 30), clock.cap) << clock.text;
    if (std::strstr(clock.text, "roce") != nullptr) {
      EXPECT_EQ(cap(4, 0, 1, 0), clock.cap);
    }
    EXPECT_EQ(formats([&](uint32_t format) {
                Mailbox in = qp_command(cqn).set(kQpc + 2, 7, 6, format);
                const bool made = create(in) != nullptr;
                EXPECT_EQ(out.status(), made ? 0 : kBadParam);
                return made;
              }),
              clock.formats)
        << clock.text;
    SoftnicAbi::TearDown();
    context = nullptr;
  }
}

// dp_ordering_0 without _1.
TEST_F(SoftnicAbiContext, AdaptiveRoutingIsAskedForWhereItIsOffered) {
  for (const bool offered : {false, true}) {
    open(offered ? "link=roce ooo_rw=yes" : "link=roce");
    EXPECT_EQ(cap(0, 14, 21, 21), offered ? 1u : 0u);
    make_qp();
    Mailbox init(272, 0x502);
    init.set(2, 23, 0, qpn).set(kQpc + 0, 12, 11, 3).set(kQpc + 15, 23, 16, 1);
    ASSERT_EQ(status(init), 0u);
    EXPECT_EQ(status(to_rtr_by_gid().set(kQpc + 36, 3, 3, 1)), kBadParam) << "dp_ordering_1";
    EXPECT_EQ(status(to_rtr_by_gid().set(kQpc + 1, 25, 25, 1)), offered ? 0u : kBadParam);
    EXPECT_EQ(field(1, 25, 25), offered ? 1u : 0u);
    mlx5dv_devx_obj_destroy(qp);
    SoftnicAbi::TearDown();
    context = nullptr;
  }
}

TEST_F(SoftnicAbiContext, PartitionIsAnEntryOfTheTable) {
  open("pkeys=0xffff,0,0x8001");
  ibv_port_attr port = {};
  ASSERT_EQ(ibv_query_port(context, 1, &port), 0);
  EXPECT_EQ(port.pkey_tbl_len, 3);
  __be16 key = 0;
  ASSERT_EQ(ibv_query_pkey(context, 1, 2, &key), 0);
  EXPECT_EQ(be16toh(key), 0x8001);
  EXPECT_EQ(ibv_get_pkey_index(context, 1, key), 2);
  EXPECT_EQ(ibv_query_pkey(context, 1, 3, &key), -1);
  make_qp();
  EXPECT_EQ(status(to_init(qpn).set(kQpc + 6, 15, 0, 1)), kBadParam) << "not in use";
  EXPECT_EQ(status(to_init(qpn).set(kQpc + 6, 15, 0, 3)), kBadParam);
  EXPECT_EQ(status(to_init(qpn).set(kQpc + 6, 15, 0, 2)), 0u);
  EXPECT_EQ(field(6, 15, 0), 2u);
  EXPECT_EQ(status(to_rtr(qpn, qpn)), 0u);
  EXPECT_EQ(field(6, 15, 0), 2u);
}

TEST_F(SoftnicAbiContext, PortOfABondCountsWithItsOptionBit) {
  open("link=roce bond=2");
  EXPECT_EQ(cap(0, 19, 3, 0), 2u);    // num_lag_ports
  EXPECT_EQ(cap(0, 15, 7, 7), 1u);    // init2_lag_tx_port_affinity
  EXPECT_EQ(cap(0, 10, 13, 13), 1u);  // rts2rts_lag_tx_port_affinity
  Mailbox ask(16, 0x842);
  ASSERT_EQ(mlx5dv_devx_general_cmd(context, ask.data(), 16, out.data(), 16), 0);
  EXPECT_EQ(out.get(2, 2, 0), 1u);
  make_qp();
  ASSERT_EQ(status(to_init(qpn)), 0u);
  EXPECT_EQ(status(with_port(to_rtr_by_gid(), 3)), kBadParam);
  EXPECT_EQ(status(with_port(to_rtr_by_gid(), 2, 0)), 0u);
  EXPECT_EQ(field(0, 27, 24), 0u) << "without the bit the field is not looked at";
  make_qp();
  ASSERT_EQ(status(to_init(qpn)), 0u);
  EXPECT_EQ(status(with_port(to_rtr_by_gid(), 2)), 0u);
  EXPECT_EQ(field(0, 27, 24), 2u);
  ASSERT_EQ(status(with_port(to_rts(qpn), 1)), 0u);
  EXPECT_EQ(field(0, 27, 24), 2u) << "RTR2RTS does not have the option";
  Mailbox again(272, 0x505);
  again.set(2, 23, 0, qpn);
  EXPECT_EQ(status(with_port(again, 3)), kBadParam);
  EXPECT_EQ(status(with_port(again, 1)), 0u);
  EXPECT_EQ(field(0, 27, 24), 1u);
}

TEST_F(SoftnicAbiContext, PortWithoutABondMeansNothing) {
  open("link=roce");
  EXPECT_EQ(cap(0, 19, 3, 0), 2u) << "what could be";
  Mailbox ask(16, 0x842);
  ASSERT_EQ(mlx5dv_devx_general_cmd(context, ask.data(), 16, out.data(), 16), 0);
  EXPECT_EQ(out.get(2, 2, 0), 0u);
  make_qp();
  ASSERT_EQ(status(to_init(qpn)), 0u);
  EXPECT_EQ(status(with_port(to_rtr_by_gid(), 2)), 0u);
  EXPECT_EQ(field(0, 27, 24), 0u);
}

// The capability that Linux calls max_qp_rd_atom is log_max_ra_req_qp.
TEST_F(SoftnicAbiContext, DepthsAreWithinTheCapabilities) {
  open("max_rd_atom=2 max_init_rd_atom=8");
  EXPECT_EQ(cap(0, 10, 21, 16), 1u);
  EXPECT_EQ(cap(0, 10, 5, 0), 3u);
  make_qp();
  ASSERT_EQ(status(to_init(qpn)), 0u);
  EXPECT_EQ(status(to_rtr(qpn, qpn).set(kQpc + 36, 23, 21, 2)), kBadParam);
  EXPECT_EQ(status(to_rtr(qpn, qpn).set(kQpc + 36, 23, 21, 1)), 0u);
  EXPECT_EQ(status(to_rts(qpn).set(kQpc + 28, 23, 21, 4)), kBadParam);
  EXPECT_EQ(status(to_rts(qpn).set(kQpc + 28, 23, 21, 3)), 0u);
}

}  // namespace
}  // namespace peal::softnic::abi_test
