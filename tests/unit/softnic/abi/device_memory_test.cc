// SPDX-License-Identifier: Apache-2.0
//
// Memory of the device, regions that change, and the device's clock.
//
// Fails at 438a779. Hazard: a client of a ConnectX finds none of the three and takes the part of
// its code that nobody else runs.
#include <ctime>

#include "tests/unit/softnic/abi/data_support.h"

namespace peal::softnic::abi_test {
namespace {

constexpr size_t kLargest = 128 << 10;
constexpr unsigned kZeroBased =
    IBV_ACCESS_ZERO_BASED | IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;

class SoftnicAbiMemory : public SoftnicAbiData {
 protected:
  ibv_dm* make_dm(size_t bytes, uint32_t mask = 0) {
    ibv_alloc_dm_attr attr = {.length = bytes, .log_align_req = 3, .comp_mask = mask};
    return ibv_alloc_dm(context, &attr);
  }
  /// Status of a WRITE of 64 bytes to that place of the peer.
  ibv_wc_status write_to(uint64_t address, uint32_t rkey) {
    std::vector<ibv_sge> list = {piece(0, 64)};
    ibv_send_wr wr = request(IBV_WR_RDMA_WRITE, 1, list);
    wr.wr.rdma.remote_addr = address;
    wr.wr.rdma.rkey = rkey;
    EXPECT_EQ(post(a, wr), 0);
    return next(cq).status;
  }
};

TEST_P(SoftnicAbiMemory, OfTheDeviceIsBoundedAndGivenBack) {
  ibv_device_attr_ex attr = {};
  ASSERT_EQ(ibv_query_device_ex(context, nullptr, &attr), 0);
  ASSERT_EQ(attr.max_dm_size, kLargest);
  EXPECT_EQ(make_dm(kLargest + 1), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(make_dm(64, 1), nullptr);
  EXPECT_EQ(errno, EINVAL);
  ibv_dm* all = make_dm(kLargest);
  ASSERT_NE(all, nullptr);
  EXPECT_EQ(make_dm(4), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  EXPECT_EQ(ibv_free_dm(all), 0);
  ibv_dm* again = make_dm(kLargest);
  ASSERT_NE(again, nullptr);
  EXPECT_EQ(ibv_free_dm(again), 0);
}

TEST_P(SoftnicAbiMemory, OfTheDeviceIsCopiedByWordsInside) {
  ibv_dm* dm = make_dm(64);
  ASSERT_NE(dm, nullptr);
  const char text[] = "fifteen letters";
  char read[16] = {};
  EXPECT_EQ(ibv_memcpy_to_dm(dm, 48, text, 16), 0);
  EXPECT_EQ(ibv_memcpy_from_dm(read, dm, 48, 16), 0);
  EXPECT_STREQ(read, text);
  EXPECT_EQ(ibv_memcpy_to_dm(dm, 2, text, 4), EINVAL);
  EXPECT_EQ(ibv_memcpy_to_dm(dm, 0, text, 3), EINVAL);
  EXPECT_EQ(ibv_memcpy_to_dm(dm, 52, text, 16), EFAULT);
  EXPECT_EQ(ibv_memcpy_from_dm(read, dm, ~uint64_t{3}, 8), EFAULT);
  EXPECT_EQ(ibv_free_dm(dm), 0);
}

TEST_P(SoftnicAbiMemory, OfTheDeviceIsWrittenByThePeerFromItsOffsetOn) {
  connect();
  ibv_dm* dm = make_dm(4096);
  ASSERT_NE(dm, nullptr);
  ibv_mr* region = ibv_reg_dm_mr(pd, dm, 1024, 128, kZeroBased);
  ASSERT_NE(region, nullptr);
  EXPECT_EQ(region->addr, nullptr);
  EXPECT_EQ(ibv_free_dm(dm), EBUSY);
  fill(0, 64, 5);
  EXPECT_EQ(write_to(64, region->rkey), IBV_WC_SUCCESS);
  uint8_t arrived[64];
  EXPECT_EQ(ibv_memcpy_from_dm(arrived, dm, 1024 + 64, 64), 0);
  EXPECT_EQ(std::memcmp(arrived, buffer.get(), 64), 0);
  EXPECT_EQ(write_to(65, region->rkey), IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(ibv_dereg_mr(region), 0);
  EXPECT_EQ(ibv_free_dm(dm), 0);
}

TEST_P(SoftnicAbiMemory, OfTheDeviceIsRegisteredZeroBasedAndInsideOnly) {
  ibv_dm* dm = make_dm(64);
  ASSERT_NE(dm, nullptr);
  EXPECT_EQ(ibv_reg_dm_mr(pd, dm, 0, 64, IBV_ACCESS_LOCAL_WRITE), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(ibv_reg_dm_mr(pd, dm, 4, 64, kZeroBased), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(ibv_reg_dm_mr(pd, dm, 68, 0, kZeroBased), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(ibv_free_dm(dm), 0);
}

TEST_P(SoftnicAbiMemory, RegionKeepsItsKeyWhenItsAccessChanges) {
  connect();
  const uint64_t there = reinterpret_cast<uintptr_t>(buffer.get() + 8192);
  ibv_mr* region = ibv_reg_mr(pd, buffer.get() + 8192, 4096, kRights);
  ASSERT_NE(region, nullptr);
  const uint32_t rkey = region->rkey;
  EXPECT_EQ(write_to(there, rkey), IBV_WC_SUCCESS);
  ASSERT_EQ(
      ibv_rereg_mr(region, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, IBV_ACCESS_LOCAL_WRITE),
      0);
  EXPECT_EQ(region->rkey, rkey);
  EXPECT_EQ(write_to(there, rkey), IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(ibv_dereg_mr(region), 0);
}

TEST_P(SoftnicAbiMemory, RegionMovesToOtherMemory) {
  connect();
  ibv_mr* region = ibv_reg_mr(pd, buffer.get() + 8192, 4096, kRights);
  ASSERT_NE(region, nullptr);
  ASSERT_EQ(
      ibv_rereg_mr(region, IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, buffer.get() + 16384, 8192, 0),
      0);
  EXPECT_EQ(region->addr, buffer.get() + 16384);
  EXPECT_EQ(region->length, 8192u);
  fill(0, 64, 9);
  EXPECT_EQ(write_to(reinterpret_cast<uintptr_t>(buffer.get() + 20480), region->rkey),
            IBV_WC_SUCCESS);
  EXPECT_TRUE(same(0, 20480, 64));
  EXPECT_EQ(write_to(reinterpret_cast<uintptr_t>(buffer.get() + 8192), region->rkey),
            IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(ibv_dereg_mr(region), 0);
}

TEST_P(SoftnicAbiMemory, RegionUsesThePdThatItMovedTo) {
  connect();
  ibv_pd* other = ibv_alloc_pd(context);
  ibv_mr* region = ibv_reg_mr(pd, buffer.get() + 8192, 4096, kRights);
  ASSERT_NE(region, nullptr);
  ASSERT_EQ(ibv_rereg_mr(region, IBV_REREG_MR_CHANGE_PD, other, nullptr, 0, 0), 0);
  EXPECT_EQ(ibv_dealloc_pd(other), EBUSY);
  EXPECT_EQ(write_to(reinterpret_cast<uintptr_t>(buffer.get() + 8192), region->rkey),
            IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(ibv_dereg_mr(region), 0);
  EXPECT_EQ(ibv_dealloc_pd(other), 0);
}

TEST_P(SoftnicAbiMemory, RefusedChangeLeavesTheRegionAsItWas) {
  connect();
  const uint64_t there = reinterpret_cast<uintptr_t>(buffer.get() + 8192);
  ibv_mr* region = ibv_reg_mr(pd, buffer.get() + 8192, 4096, kRights);
  ASSERT_NE(region, nullptr);
  const auto refused = [&](int flags, ibv_pd* to, void* address, size_t bytes, int access) {
    errno = 0;
    EXPECT_EQ(ibv_rereg_mr(region, flags, to, address, bytes, access), IBV_REREG_MR_ERR_INPUT);
    return errno;
  };
  EXPECT_EQ(refused(1 << 3, nullptr, nullptr, 0, 0), EINVAL);
  EXPECT_EQ(refused(0, nullptr, nullptr, 0, kRights), EINVAL);
  EXPECT_EQ(refused(IBV_REREG_MR_CHANGE_PD, nullptr, nullptr, 0, 0), EINVAL);
  EXPECT_EQ(refused(IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, IBV_ACCESS_REMOTE_WRITE),
            EINVAL);
  EXPECT_EQ(refused(IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, buffer.get(), 0, 0), EINVAL);
  EXPECT_EQ(
      refused(IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, reinterpret_cast<void*>(kPage), 64, 0),
      EFAULT);
  EXPECT_EQ(write_to(there, region->rkey), IBV_WC_SUCCESS);
  EXPECT_EQ(ibv_dereg_mr(region), 0);
}

TEST_P(SoftnicAbiMemory, ClockOfTheDeviceTellsTheTimeOfDay) {
  mlx5dv_clock_info info = {};
  ASSERT_EQ(mlx5dv_get_clock_info(context, &info), 0);
  ibv_values_ex values = {};
  values.comp_mask = IBV_VALUES_MASK_RAW_CLOCK;
  timespec before = {}, after = {};
  clock_gettime(CLOCK_REALTIME, &before);
  ASSERT_EQ(ibv_query_rt_values_ex(context, &values), 0);
  clock_gettime(CLOCK_REALTIME, &after);
  const auto tick = static_cast<uint64_t>(values.raw_clock.tv_nsec);
  const uint64_t now = mlx5dv_ts_to_ns(&info, tick) / 1'000'000'000;
  // The two clocks are read one after the other, and the system may set one.
  EXPECT_GE(now + 5, static_cast<uint64_t>(before.tv_sec));
  EXPECT_LE(now, static_cast<uint64_t>(after.tv_sec) + 5);
  values.comp_mask = 1u << 5;
  EXPECT_EQ(ibv_query_rt_values_ex(context, &values), EINVAL);
  mlx5dv_port port = {};
  EXPECT_EQ(mlx5dv_query_port(context, 1, &port), 0);
  EXPECT_EQ(port.flags, 0u);
  EXPECT_EQ(mlx5dv_query_port(context, 9, &port), EINVAL);
}

INSTANTIATE_TEST_SUITE_P(Ways, SoftnicAbiMemory, kBothWays, way_name);

}  // namespace
}  // namespace peal::softnic::abi_test
