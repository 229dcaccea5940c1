// SPDX-License-Identifier: Apache-2.0
//
// Opening a device and its objects on the fake: choices, refusals, releases.
#include "host/nic/device.h"

#include <gtest/gtest.h>
#include <infiniband/mlx5dv.h>

#include <utility>

#include "host/nic/register_page.h"
#include "tests/support/fake_rdma_fixture.h"

namespace peal::nic {
namespace {

class NicDevice : public FakeRdmaTest {
 protected:
  std::string refused_to_open(const std::string& hca = "") {
    return refusal(ErrorCode::kUnsupported, [&] { Device device(library(), hca); });
  }
  /// What is said when capability word `word` is `value`.
  std::string refused_without(std::vector<uint32_t>& page, size_t word, uint32_t value) {
    const uint32_t before = std::exchange(page[word], value);
    const std::string what = refused_to_open();
    page[word] = before;
    return what;
  }
};

TEST_F(NicDevice, OpensTheFirstMlx5DeviceWithDevx) {
  fake_.foreign = {"hfi1_0"};
  fake_.devices = {"mlx5_2", "mlx5_3"};
  const Device device(library(), "");
  EXPECT_EQ(device.name(), "mlx5_2");
  EXPECT_EQ(fake_.opened, "mlx5_2");
  EXPECT_EQ(fake_.open_flags, static_cast<uint32_t>(MLX5DV_CONTEXT_FLAGS_DEVX));
  EXPECT_EQ(device.firmware(), "28.39.1002");
  EXPECT_FALSE(device.software());
  EXPECT_EQ(device.lid(), 0x1234);
  EXPECT_EQ(device.mtu(), 5);
  EXPECT_EQ(device.event_queue(), 3u);
  expect_in(device.description(), {"mlx5_2", "28.39.1002", "ConnectX via"});
}

TEST_F(NicDevice, OpensTheOneAskedFor) {
  fake_.devices = {"mlx5_0", "mlx5_1"};
  EXPECT_EQ(Device(library(), "mlx5_1").name(), "mlx5_1");
}

TEST_F(NicDevice, NamesTheDevicesThereAre) {
  fake_.foreign = {"hfi1_0"};
  fake_.devices = {"mlx5_0", "mlx5_1"};
  expect_in(refused_to_open("mlx5_7"), {"\"mlx5_7\"", "mlx5_0, mlx5_1", "PEAL_HCA"});
  refused_to_open("hfi1_0");
  fake_.devices.clear();
  expect_in(refused_to_open(), {"none"});
}

TEST_F(NicDevice, IsRecognisedAsSoftwareByItsFirmware) {
  fake_.firmware = "0.softnic.1";
  EXPECT_TRUE(Device(library(), "").software());
}

TEST_F(NicDevice, ReportsSystemFailures) {
  fake_.refuse_open = true;
  expect_in(refusal(ErrorCode::kSystem, [&] { Device(library(), ""); }),
            {"mlx5dv_open_device(mlx5_0)", "Permission denied", "DEVX"});
  fake_.refuse_open = false;
  fake_.refuse_eqn = true;
  expect_in(refusal(ErrorCode::kSystem, [&] { Device(library(), ""); }), {"mlx5dv_devx_query_eqn"});
  fake_.refuse_eqn = false;
  fake_.refuse_list = true;
  expect_in(refusal(ErrorCode::kSystem, [&] { Device(library(), ""); }), {"ibv_get_device_list"});
}

TEST_F(NicDevice, NeedsAnActivePort) {
  fake_.port_state = IBV_PORT_DOWN;
  expect_in(refused_to_open(), {"port 1 of mlx5_0", "not active", "PEAL_HCA"});
}

TEST_F(NicDevice, DecodesItsCapabilities) {
  const Device device(library(), "");
  const Capabilities expected{.cqe_version = 1,
                              .reliable_connection = true,
                              .atomics = true,
                              .cq_overrun_ignore = true,
                              .atomic_host_endian = true,
                              .atomic_operations = 0xf,
                              .atomic_sizes = 0xc,
                              .log_max_queue_blocks = 15,
                              .log_max_qp = 17,
                              .log_max_cq = 16,
                              .log_max_message = 30,
                              .log_max_responder_depth = 6,
                              .log_max_initiator_depth = 5,
                              .max_wqe_bytes = 1024};
  EXPECT_EQ(device.capabilities(), expected);
}

TEST_F(NicDevice, SaysWhichCapabilityIsMissing) {
  auto& general = fake_.general_capabilities;
  auto& atomic = fake_.atomic_capabilities;
  expect_in(refused_without(general, 15, 0), {"mlx5_0", "cqe_version", "PEAL_HCA"});
  expect_in(refused_without(general, 17, 1), {"cq_oi"});
  expect_in(refused_without(general, 17, 1u << 31), {"(rc)"});
  expect_in(refused_without(general, 16, 0), {"(atomic)"});
  expect_in(refused_without(general, 20, 256), {"max_wqe_sz_sq"});
  expect_in(refused_without(atomic, 2, 0), {"atomic_req_8B_endianness_mode"});
  expect_in(refused_without(atomic, 4, 0x3), {"atomic_operations"});
  expect_in(refused_without(atomic, 5, 0x8), {"atomic_size_qp"});
}

TEST_F(NicDevice, ListsAllMissingCapabilitiesAtOnce) {
  const std::string what =
      refusal(ErrorCode::kUnsupported, [] { require(Capabilities{}, "mlx5_9"); });
  expect_in(what, {"mlx5_9", "cqe_version", "(rc)", "cq_oi", "(atomic)", "max_wqe_sz_sq"});
}

TEST_F(NicDevice, ReportsARefusedCapabilityQuery) {
  fake_.refuse_command = 0x100;
  fake_.refuse_errno = EOPNOTSUPP;
  expect_in(refused_to_open(), {"QUERY_HCA_CAP", "DEVX"});
}

TEST_F(NicDevice, KnowsTheNumberOfAProtectionDomain) {
  const Device device(library(), "");
  EXPECT_EQ(ProtectionDomain(device).number(), 0x77u);
  fake_.refuse_pd = true;
  refusal(ErrorCode::kSystem, [&] { ProtectionDomain domain(device); });
}

TEST_F(NicDevice, TakesTheBestDoorbellPageThereIs) {
  const Device device(library(), "");
  EXPECT_STREQ(RegisterPage(device).kind(), "dedicated");
  EXPECT_EQ(fake_.uar_flags, 1u << 31);
  fake_.refuse_uar = 1;
  EXPECT_STREQ(RegisterPage(device).kind(), "uncached");
  EXPECT_EQ(fake_.uar_flags, 1u);
  fake_.refuse_uar = 3;
  const RegisterPage last(device);
  EXPECT_STREQ(last.kind(), "write-combining");
  EXPECT_EQ(fake_.uar_flags, 0u);
  EXPECT_EQ(last.number(), 0x22u);
  fake_.refuse_uar = 7;
  expect_in(refusal(ErrorCode::kSystem, [&] { RegisterPage uar(device); }),
            {"mlx5dv_devx_alloc_uar(mlx5_0, any kind)", "PEAL_TRANSPORT=proxy"});
}

TEST_F(NicDevice, ReleasesEachObjectOnceWhenOwnersMove) {
  Device device(library(), "");
  Device moved(std::move(device));
  ProtectionDomain a(moved);
  ProtectionDomain b(moved);
  a = std::move(b);
  EXPECT_EQ(fake_.live, 2);  // the context and what b held
  EXPECT_EQ(a.number(), 0x77u);
}

}  // namespace
}  // namespace peal::nic
