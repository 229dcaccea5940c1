// SPDX-License-Identifier: Apache-2.0
//
// The software NIC as other hardware, through the C interface: what clients are told of devices,
// ports, GIDs and capabilities.
#include "tests/unit/softnic/abi/present_support.h"

extern "C" {
int ibv_query_gid_type(ibv_context* context, uint8_t port, unsigned index, uint32_t* type);
}

namespace peal::softnic::abi_test {
namespace {

constexpr uint32_t kIndexes = 4;

ibv_port_attr port_of(ibv_context* context, uint8_t number) {
  ibv_port_attr port = {};
  EXPECT_EQ(ibv_query_port(context, number, &port), 0);
  return port;
}

uint32_t general_cap(ibv_context* context, uint32_t type, size_t dword, unsigned high,
                     unsigned low) {
  Mailbox in(16, 0x100);
  in.set(1, 15, 0, type << 1 | 1);
  Mailbox out(4112);
  EXPECT_EQ(mlx5dv_devx_general_cmd(context, in.data(), in.size(), out.data(), out.size()), 0);
  return out.get(4 + dword, high, low);
}

/// The service levels on which packets of a port may arrive out of order; `status` of the answer
/// for a port that has none.
uint32_t ooo_sl_mask(ibv_context* context, uint32_t port, int* error) {
  Mailbox in(16, 0x762);
  in.set(2, 19, 16, port);
  Mailbox out(528);
  *error = mlx5dv_devx_general_cmd(context, in.data(), in.size(), out.data(), out.size());
  return out.get(4 + 20, 15, 0);
}

// dp_ordering_force, and ooo_sl_mask of the port's context.
TEST_F(Presented, TellsWhatItsOrderIs) {
  present("force_order=yes ooo_sl=0xfff0; link=ib; link=roce");
  int error = 0;
  ibv_context* const forcing = open_device(0);
  EXPECT_EQ(general_cap(forcing, 0, 1, 31, 31), 1u);     // hca_cap_2
  EXPECT_EQ(general_cap(forcing, 0x20, 4, 23, 23), 1u);  // dp_ordering_force
  EXPECT_EQ(general_cap(forcing, 0, 9, 7, 7), 1u);       // ooo_sl_mask
  EXPECT_EQ(ooo_sl_mask(forcing, 1, &error), 0xfff0u);
  EXPECT_EQ(error, 0);
  ooo_sl_mask(forcing, 2, &error);
  EXPECT_NE(error, 0) << "no such port";

  ibv_context* const silent = open_device(1);
  EXPECT_EQ(general_cap(silent, 0, 1, 31, 31), 0u);
  EXPECT_EQ(general_cap(silent, 0, 9, 7, 7), 0u);

  ooo_sl_mask(open_device(2), 1, &error);
  EXPECT_NE(error, 0) << "Ethernet has no service levels";
}

// Bit 0 of 4 bytes, bit 1 of 8.
TEST_F(Presented, TellsWhichAtomicsTheBusExecutes) {
  present("pci_atomics=yes; devices=1");
  EXPECT_EQ(general_cap(open_device(0), 3, 20, 31, 16), 3u);  // fetch_add_pci_atomic
  EXPECT_EQ(general_cap(open_device(0), 3, 21, 31, 16), 3u);  // compare_swap_pci_atomic
  EXPECT_EQ(general_cap(open_device(1), 3, 20, 31, 16), 0u);
  EXPECT_EQ(general_cap(open_device(1), 3, 21, 31, 16), 0u);
}

TEST_F(Presented, ListsTheDevicesThatThereAre) {
  present("devices=2; link=roce name=mlx5_bond_0");
  int count = 0;
  ibv_device** list = ibv_get_device_list(&count);
  ASSERT_NE(list, nullptr);
  ASSERT_EQ(count, 3);
  EXPECT_EQ(list[3], nullptr);
  EXPECT_STREQ(ibv_get_device_name(list[0]), "mlx5_0");
  EXPECT_STREQ(ibv_get_device_name(list[1]), "mlx5_1");
  EXPECT_STREQ(ibv_get_device_name(list[2]), "mlx5_bond_0");
  EXPECT_STREQ(list[2]->ibdev_path, "/sys/class/infiniband/mlx5_bond_0");
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(ibv_get_device_index(list[i]), i);
    EXPECT_TRUE(mlx5dv_is_supported(list[i]));
  }
  ibv_free_device_list(list);
  // Each is a NIC of its own.
  ibv_context* a = open_device(0);
  ibv_context* b = open_device(1);
  EXPECT_NE(port_of(a, 1).lid, port_of(b, 1).lid);
  EXPECT_NE(ibv_get_device_guid(a->device), ibv_get_device_guid(b->device));
}

TEST_F(Presented, ListsNothingWhenThereIsNothing) {
  present("devices=0");
  int count = 1;
  ibv_device** list = ibv_get_device_list(&count);
  ASSERT_NE(list, nullptr);
  EXPECT_EQ(count, 0);
  EXPECT_EQ(list[0], nullptr);
  ibv_free_device_list(list);
}

TEST_F(Presented, ListsNothingWhereTheTextIsWrong) {
  present("link=carrier_pigeon");
  errno = 0;
  EXPECT_EQ(ibv_get_device_list(nullptr), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

TEST_F(Presented, RocePortHasGidsAndNoLid) {
  present("link=roce gids=v1:link,none,v2:link,v2:10.9.8.7");
  ibv_context* context = open_device(0);
  const ibv_port_attr port = port_of(context, 1);
  EXPECT_EQ(port.link_layer, IBV_LINK_LAYER_ETHERNET);
  EXPECT_EQ(port.state, IBV_PORT_ACTIVE);
  EXPECT_EQ(port.lid, 0);
  EXPECT_EQ(port.active_mtu, IBV_MTU_1024);
  EXPECT_EQ(port.gid_tbl_len, 4);
  EXPECT_NE(port.flags & IBV_QPF_GRH_REQUIRED, 0);

  const uint32_t types[kIndexes] = {IBV_GID_TYPE_ROCE_V1, 0, IBV_GID_TYPE_ROCE_V2,
                                    IBV_GID_TYPE_ROCE_V2};
  for (uint32_t i = 0; i < kIndexes; ++i) {
    ibv_gid gid = {};
    EXPECT_EQ(ibv_query_gid(context, 1, static_cast<int>(i), &gid), 0);
    ibv_gid_entry entry = {};
    uint32_t of_sysfs = 9;
    EXPECT_EQ(ibv_query_gid_type(context, 1, i, &of_sysfs), 0);
    EXPECT_EQ(of_sysfs, types[i] == IBV_GID_TYPE_ROCE_V2 ? 1u : 0u);
    if (i == 1) {
      EXPECT_EQ(gid.global.interface_id, 0u);
      EXPECT_EQ(ibv_query_gid_ex(context, 1, i, &entry, 0), ENODATA);
      continue;
    }
    ASSERT_EQ(ibv_query_gid_ex(context, 1, i, &entry, 0), 0);
    EXPECT_EQ(entry.gid_type, types[i]);
    EXPECT_EQ(entry.gid_index, i);
    EXPECT_EQ(std::memcmp(entry.gid.raw, gid.raw, 16), 0);
  }
  ibv_gid_entry table[kIndexes] = {};
  EXPECT_EQ(ibv_query_gid_table(context, table, kIndexes, 0), 3);
  EXPECT_EQ(table[1].gid_index, 2u);
  EXPECT_EQ(table[2].gid.raw[12], 10);
  EXPECT_EQ(ibv_query_gid_table(context, table, 2, 0), -EINVAL);
  ibv_gid gid = {};
  EXPECT_EQ(ibv_query_gid(context, 1, 4, &gid), -1);
  EXPECT_EQ(ibv_query_gid(context, 1, -1, &gid), -1);
}

TEST_F(Presented, OnePortOfSeveralHasTheCable) {
  present("ports=3 port=2");
  ibv_context* context = open_device(0);
  ibv_device_attr attr = {};
  ASSERT_EQ(ibv_query_device(context, &attr), 0);
  EXPECT_EQ(attr.phys_port_cnt, 3);
  EXPECT_EQ(port_of(context, 1).state, IBV_PORT_DOWN);
  EXPECT_EQ(port_of(context, 1).lid, 0);
  EXPECT_EQ(port_of(context, 2).state, IBV_PORT_ACTIVE);
  EXPECT_NE(port_of(context, 2).lid, 0);
  EXPECT_EQ(port_of(context, 3).state, IBV_PORT_DOWN);
  ibv_port_attr port = {};
  EXPECT_EQ(ibv_query_port(context, 4, &port), EINVAL);
  EXPECT_EQ(ibv_query_port(context, 0, &port), EINVAL);
  ibv_gid gid = {};
  EXPECT_EQ(ibv_query_gid(context, 1, 0, &gid), 0);
  EXPECT_EQ(gid.global.interface_id, 0u);
  EXPECT_EQ(ibv_query_gid(context, 2, 0, &gid), 0);
  EXPECT_NE(gid.global.interface_id, 0u);
}

TEST_F(Presented, PortHasTheStateItIsTold) {
  struct Case {
    const char* state;
    ibv_port_state wanted;
    bool has_lid;
  };
  for (const Case each :
       {Case{"down", IBV_PORT_DOWN, false}, Case{"init", IBV_PORT_INIT, false},
        Case{"armed", IBV_PORT_ARMED, true}, Case{"active", IBV_PORT_ACTIVE, true}}) {
    present(std::string("mtu=512 state=") + each.state);
    const ibv_port_attr port = port_of(open_device(0), 1);
    EXPECT_EQ(port.state, each.wanted) << each.state;
    EXPECT_EQ(port.lid != 0, each.has_lid) << each.state;
    EXPECT_EQ(port.active_mtu, IBV_MTU_512);
  }
}

TEST_F(Presented, FirmwareSaysTheSame) {
  present(
      "; link=roce ports=2 udp=50000-50010 max_rd_atom=4 max_init_rd_atom=2 max_qp=1000 "
      "max_qp_wr=512");
  ibv_context* roce = open_device(0);
  EXPECT_EQ(general_cap(roce, 0, 13, 9, 8), 1u);    // port_type
  EXPECT_EQ(general_cap(roce, 0, 13, 7, 0), 2u);    // num_ports
  EXPECT_EQ(general_cap(roce, 0, 16, 2, 2), 1u);    // roce
  EXPECT_EQ(general_cap(roce, 0, 16, 5, 5), 1u);    // dct
  EXPECT_EQ(general_cap(roce, 0, 10, 21, 16), 2u);  // log_max_ra_req_qp: as responder
  EXPECT_EQ(general_cap(roce, 0, 10, 5, 0), 1u);    // log_max_ra_res_qp: as initiator
  EXPECT_EQ(general_cap(roce, 0, 4, 4, 0), 9u);     // log_max_qp: not more than there are
  EXPECT_EQ(general_cap(roce, 0, 4, 23, 16), 9u);   // log_max_qp_sz
  EXPECT_EQ(general_cap(roce, 4, 6, 31, 16), 50010u);
  EXPECT_EQ(general_cap(roce, 4, 6, 15, 0), 50000u);
  EXPECT_EQ(general_cap(roce, 4, 5, 15, 0), 4791u);
  EXPECT_EQ(general_cap(roce, 4, 7, 15, 0), 4u);
  ibv_device_attr attr = {};
  ASSERT_EQ(ibv_query_device(roce, &attr), 0);
  EXPECT_EQ(attr.max_qp_rd_atom, 4);
  EXPECT_EQ(attr.max_qp_init_rd_atom, 2);
  EXPECT_EQ(attr.max_qp, 1000);
  EXPECT_EQ(attr.max_qp_wr, 512);

  present("");
  ibv_context* ib = open_device(0);
  EXPECT_EQ(general_cap(ib, 0, 13, 9, 8), 0u);
  EXPECT_EQ(general_cap(ib, 0, 16, 2, 2), 0u);
  EXPECT_EQ(general_cap(ib, 0, 16, 5, 5), 1u);
  EXPECT_EQ(general_cap(ib, 4, 6, 31, 16), 0u);
}

TEST_F(Presented, FirmwareHasTheRoceAddresses) {
  present("link=roce; link=ib");
  ibv_context* context = open_device(0);
  const auto ask = [](ibv_context* of, uint32_t index, Mailbox& out) {
    Mailbox in(16, 0x760);
    in.set(2, 31, 16, index).set(2, 3, 0, 1);
    return mlx5dv_devx_general_cmd(of, in.data(), in.size(), out.data(), out.size());
  };
  Mailbox out(48);
  ASSERT_EQ(ask(context, 0, out), 0);
  EXPECT_EQ(out.get(4, 31, 16), 0xfe80u);
  EXPECT_EQ(out.get(4 + 4, 15, 0), 0x0270u);  // its own MAC
  EXPECT_EQ(out.get(4 + 5, 31, 16), 0x6561u);
  EXPECT_EQ(out.get(4 + 6, 11, 8), 1u);  // IPv6
  EXPECT_EQ(out.get(4 + 6, 7, 0), 0u);   // RoCE v1
  ASSERT_EQ(ask(context, 3, out), 0);
  EXPECT_EQ(out.get(4 + 3, 31, 24), 10u);
  EXPECT_EQ(out.get(4 + 6, 11, 8), 0u);
  EXPECT_EQ(out.get(4 + 6, 7, 0), 2u);
  EXPECT_EQ(ask(context, 4, out), EINVAL);
  EXPECT_EQ(out.status(), 3u);
  EXPECT_EQ(ask(open_device(1), 0, out), EINVAL) << "InfiniBand has none";
}

}  // namespace
}  // namespace peal::softnic::abi_test
