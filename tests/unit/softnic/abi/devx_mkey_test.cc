// SPDX-License-Identifier: Apache-2.0
//
// CREATE_MKEY: KSM keys as clients make them (UCX's for atomics and behind fences), and everything
// in the command that is refused. What they grant, indirect_keys_test says.
#include "tests/unit/softnic/abi/data_support.h"
#include "tests/unit/softnic/abi/present_support.h"

namespace peal::softnic::abi_test {
namespace {

constexpr size_t kMkc = 0x10 / 4;
constexpr size_t kActualEntries = 0x60 / 4;
constexpr size_t kEntries = 0x110 / 4;
constexpr uint32_t kTwoGigabytes = 31;  // log_entity_size
constexpr uint64_t kShift = 16;
constexpr uint8_t kVariant = 0x5c;

constexpr uint32_t kBadParameter = 0x03;
constexpr uint32_t kBadResource = 0x05;
constexpr uint32_t kBadInputLength = 0x50;

Mailbox& set_wide(Mailbox& in, size_t dword, uint64_t value) {
  return in.set(dword, 31, 0, static_cast<uint32_t>(value >> 32))
      .set(dword + 1, 31, 0, static_cast<uint32_t>(value));
}

/// As UCX makes one, over all of `mr`: of one entry of 2 GiB, shifted.
Mailbox mkey_command(uint32_t pdn, const ibv_mr& mr) {
  const auto address = reinterpret_cast<uintptr_t>(mr.addr);
  Mailbox in(0x110 + 16, 0x200);
  in.set(kMkc, 9, 8, 3).set(kMkc, 14, 10, 0x1f);  // KSM; a, rw, rr, lw, lr
  in.set(kMkc + 1, 31, 8, 0xffffff).set(kMkc + 1, 7, 0, kVariant).set(kMkc + 3, 23, 0, pdn);
  set_wide(in, kMkc + 4, (address & ~uint64_t{0x7fffffff}) + kShift);
  set_wide(in, kMkc + 6, (address & 0x7fffffff) + mr.length);
  in.set(kMkc + 13, 31, 0, 1).set(kMkc + 14, 4, 0, kTwoGigabytes).set(kActualEntries, 31, 0, 1);
  in.set(kEntries + 1, 31, 0, mr.lkey);
  set_wide(in, kEntries + 2, address & ~uint64_t{0x7fffffff});
  return in;
}

class DevxMkeyData : public SoftnicAbiData {
 protected:
  void SetUp() override {
    SoftnicAbiData::SetUp();
    connect();
    Mailbox in = mkey_command(pdn_of(pd), *mr);
    object = create(in);
    ASSERT_NE(object, nullptr) << std::strerror(errno);
    key = out.number() << 8 | kVariant;
  }
  mlx5dv_devx_obj* object = nullptr;
  uint32_t key = 0;
};

TEST_P(DevxMkeyData, ShiftsAddresses) {
  fill(0, 64, 3);
  std::vector<ibv_sge> list = {piece(0, 64)};
  ibv_send_wr wr = request(IBV_WR_RDMA_WRITE, 1, list, 4096);
  wr.wr.rdma.rkey = key;
  wr.wr.rdma.remote_addr += kShift;
  ASSERT_EQ(post(a, wr), 0);
  EXPECT_EQ(next(cq).status, IBV_WC_SUCCESS);
  EXPECT_TRUE(same(0, 4096, 64));
}

TEST_P(DevxMkeyData, TakesWhatIsSent) {
  fill(0, 64, 9);
  ibv_sge entry = piece(8192, 64);
  entry.addr += kShift;
  entry.lkey = key;
  ASSERT_EQ(post_receive(b, 2, {entry}), 0);
  std::vector<ibv_sge> list = {piece(0, 64)};
  ibv_send_wr wr = request(IBV_WR_SEND, 1, list);
  ASSERT_EQ(post(a, wr), 0);
  EXPECT_EQ(next(receive_cq).status, IBV_WC_SUCCESS);
  EXPECT_TRUE(same(0, 8192, 64));
}

TEST_P(DevxMkeyData, GrantsNothingOnceItIsDestroyed) {
  EXPECT_EQ(mlx5dv_devx_obj_destroy(object), 0);
  std::vector<ibv_sge> list = {piece(0, 64)};
  ibv_send_wr wr = request(IBV_WR_RDMA_WRITE, 1, list, 4096);
  wr.wr.rdma.rkey = key;
  wr.wr.rdma.remote_addr += kShift;
  ASSERT_EQ(post(a, wr), 0);
  EXPECT_EQ(next(cq).status, IBV_WC_REM_ACCESS_ERR);
}

// The keys that it names do not know of it.
TEST_P(DevxMkeyData, GrantsNothingOnceItsMemoryHasGone) {
  ibv_mr* const source = ibv_reg_mr(pd, buffer.get(), kBytes, kRights);
  ASSERT_NE(source, nullptr);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
  mr = source;
  std::vector<ibv_sge> list = {piece(0, 64)};
  ibv_send_wr wr = request(IBV_WR_RDMA_WRITE, 1, list, 4096);
  wr.wr.rdma.rkey = key;
  wr.wr.rdma.remote_addr += kShift;
  ASSERT_EQ(post(a, wr), 0);
  EXPECT_EQ(next(cq).status, IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(mlx5dv_devx_obj_destroy(object), 0);
}

INSTANTIATE_TEST_SUITE_P(Ways, DevxMkeyData, kBothWays, way_name);

class DevxMkey : public SoftnicAbi {
 protected:
  void SetUp() override {
    SoftnicAbi::SetUp();
    mr = ibv_reg_mr(pd, memory.get(), kUmemBytes, IBV_ACCESS_LOCAL_WRITE);
    ASSERT_NE(mr, nullptr);
  }
  Mailbox command() { return mkey_command(pdn_of(pd), *mr); }
  ibv_mr* mr = nullptr;
};

TEST_F(DevxMkey, HoldsItsDomain) {
  ibv_pd* const other = ibv_alloc_pd(context);
  Mailbox in = mkey_command(pdn_of(other), *mr);
  mlx5dv_devx_obj* const key = create(in);
  ASSERT_NE(key, nullptr);
  EXPECT_EQ(ibv_dealloc_pd(other), EBUSY);
  EXPECT_EQ(mlx5dv_devx_obj_destroy(key), 0);
  EXPECT_EQ(ibv_dealloc_pd(other), 0);
}

TEST_F(DevxMkey, OfAnotherKindIsRefused) {
  const auto refused = [&](size_t dword, unsigned high, unsigned low, uint32_t value) {
    SCOPED_TRACE("dword " + std::to_string(dword) + ", bit " + std::to_string(low));
    expect_refused(command().set(dword, high, low, value), kBadParameter, EINVAL);
  };
  refused(kMkc, 9, 8, 0);           // PA
  refused(kMkc, 9, 8, 1);           // MTT
  refused(kMkc, 9, 8, 2);           // KLM
  refused(kMkc, 28, 26, 1);         // upper bits of the mode
  refused(kMkc, 30, 30, 1);         // free
  refused(kMkc, 15, 15, 1);         // umr_en
  refused(kMkc, 10, 10, 0);         // no local read
  refused(kMkc + 1, 31, 8, 0x123);  // of one queue pair
  refused(kMkc + 3, 31, 31, 1);     // length64
  refused(kMkc + 3, 30, 30, 1);     // bsf_en
  refused(2, 23, 0, 0x123);         // input_mkey_index
  refused(3, 30, 30, 1);            // mkey_umem_valid
}

TEST_F(DevxMkey, ThatIsWrongIsRefused) {
  const auto refused = [&](size_t dword, unsigned high, unsigned low, uint32_t value) {
    SCOPED_TRACE("dword " + std::to_string(dword) + ", bit " + std::to_string(low));
    expect_refused(command().set(dword, high, low, value), kBadParameter, EINVAL);
  };
  refused(kMkc + 7, 31, 0, 0);   // no length
  refused(kMkc + 6, 31, 0, 1);   // more than its entry has
  refused(kMkc + 14, 4, 0, 11);  // entries too small
  refused(kMkc + 13, 31, 0, 2);  // another number of entries than follow
  refused(kMkc, 11, 11, 0);      // remote write without local write
  expect_refused(command().set(kMkc + 3, 23, 0, 0x7777), kBadResource, EINVAL);
}

TEST_F(DevxMkey, LengthsAreChecked) {
  Mailbox in = command();
  in.set(kActualEntries, 31, 0, 2).set(kMkc + 13, 31, 0, 2);
  expect_refused(in, kBadInputLength, EIO);
  in = command();
  in.resize(0x110 + 32);
  expect_refused(in, kBadInputLength, EIO);
  in.resize(0x60);
  expect_refused(in, kBadInputLength, EIO);
}

class DevxMkeyOfOthers : public Presented {
 protected:
  static uint32_t status_of(const std::string& device, uint32_t relaxed) {
    present(device);
    ibv_context* const context = ibv_open_device(first_device());
    EXPECT_NE(context, nullptr);
    OneDevice one;
    one.open(context, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_RELAXED_ORDERING);
    mlx5dv_pd view = {};
    mlx5dv_obj obj = {};
    obj.pd.in = one.pd;
    obj.pd.out = &view;
    EXPECT_EQ(mlx5dv_init_obj(&obj, MLX5DV_OBJ_PD), 0);
    Mailbox in = mkey_command(view.pdn, *one.mr);
    in.set(kMkc, 18, 18, relaxed);  // relaxed_ordering_write
    Mailbox out(16);
    mlx5dv_devx_obj_create(context, in.data(), in.size(), out.data(), out.size());
    EXPECT_EQ(ibv_close_device(context), 0);
    return out.status();
  }
};

TEST_F(DevxMkeyOfOthers, HaveTheOrderThatTheDeviceHas) {
  EXPECT_EQ(status_of("", 0), 0u);
  EXPECT_EQ(status_of("", 1), 0u);
  EXPECT_EQ(status_of("refuse=relaxed_ordering", 0), 0u);
  EXPECT_EQ(status_of("refuse=relaxed_ordering", 1), kBadParameter);
  EXPECT_EQ(status_of("relaxed_only=yes", 0), kBadParameter);
  EXPECT_EQ(status_of("relaxed_only=yes", 1), 0u);
}

}  // namespace
}  // namespace peal::softnic::abi_test
