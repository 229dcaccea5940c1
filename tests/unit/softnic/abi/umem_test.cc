// SPDX-License-Identifier: Apache-2.0
//
// Where in a umem queues may begin. A queue's context says its place in a page of the umem in 64ths
// of that page, and the driver takes the largest page that it can: in memory of huge pages most
// offsets cannot be said, unless the client allows small pages only.
#include <sys/mman.h>

#include "tests/unit/softnic/abi/support.h"

namespace peal::softnic::abi_test {
namespace {

constexpr size_t kHuge = 2u << 20;
constexpr uint32_t kBadParameter = 0x03;
constexpr uint64_t kAnyPage = ~uint64_t{kPage - 1};

class SoftnicAbiUmem : public SoftnicAbi {
 protected:
  void SetUp() override {
    SoftnicAbi::SetUp();
    taken_ = mmap(nullptr, 3 * kHuge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(taken_, MAP_FAILED);
    const auto begin = reinterpret_cast<uintptr_t>(taken_);
    huge_ = reinterpret_cast<uint8_t*>((begin + kHuge - 1) / kHuge * kHuge);
  }
  void TearDown() override {
    SoftnicAbi::TearDown();
    munmap(taken_, 3 * kHuge);
  }

  /// The umem of the commands that follow: so many bytes, from so far into a huge page.
  void enter(size_t bytes, size_t from, uint64_t pages) {
    mlx5dv_devx_umem_in in = {};
    in.addr = huge_ + from;
    in.size = bytes;
    in.access = IBV_ACCESS_LOCAL_WRITE;
    in.pgsz_bitmap = pages;
    umem = mlx5dv_devx_umem_reg_ex(context, &in);
    ASSERT_NE(umem, nullptr) << std::strerror(errno);
  }
  Mailbox cq_at(uint32_t offset) { return cq_command().set(0x54 / 4, 31, 0, offset); }
  Mailbox qp_at(uint32_t offset) { return qp_command(cqn_).set(0x104 / 4, 31, 0, offset); }
  /// A CQ and a queue pair can begin at multiples of `unit`, and nowhere else.
  void expect_unit(uint32_t unit) {
    Mailbox cq = cq_at(3 * unit);
    EXPECT_NE(create(cq), nullptr) << out.syndrome();
    cqn_ = out.number();
    Mailbox qp = qp_at(5 * unit);
    EXPECT_NE(create(qp), nullptr) << out.syndrome();
    if (unit == 64) return;  // less is no place for a queue anyway
    expect_refused(cq_at(3 * unit + unit / 2), kBadParameter, EINVAL);
    const uint32_t syndrome = out.syndrome();
    expect_refused(qp_at(5 * unit + unit / 2), kBadParameter, EINVAL);
    EXPECT_EQ(out.syndrome(), syndrome);
  }

  uint8_t* huge_ = nullptr;  // two pages

 private:
  void* taken_ = nullptr;
  uint32_t cqn_ = 0;
};

TEST_F(SoftnicAbiUmem, SaysPlacesIn64thsOfItsPage) {
  enter(kHuge, 0, kAnyPage);
  expect_unit(kHuge / 64);
}

TEST_F(SoftnicAbiUmem, HasThePageThatItsLengthAllows) {
  enter(kHuge + 4 * kPage, 0, kAnyPage);
  expect_unit(4 * kPage / 64);
}

TEST_F(SoftnicAbiUmem, HasThePageThatItsAddressAllows) {
  enter(kHuge, 8 * kPage, kAnyPage);
  expect_unit(8 * kPage / 64);
}

TEST_F(SoftnicAbiUmem, HasThePageThatTheClientAllows) {
  enter(kHuge, 0, 16 * kPage | kPage);
  expect_unit(16 * kPage / 64);
  enter(kHuge, 0, 2 * kPage - 1);  // all up to 4 KiB
  expect_unit(64);
}

TEST_F(SoftnicAbiUmem, IsOfAnyPageByThePlainCall) {
  umem = mlx5dv_devx_umem_reg(context, huge_, kHuge, IBV_ACCESS_LOCAL_WRITE);
  ASSERT_NE(umem, nullptr);
  expect_unit(kHuge / 64);
}

// dbr_addr is a whole offset, not one in a page.
TEST_F(SoftnicAbiUmem, HoldsDoorbellRecordsAnywhere) {
  enter(kHuge, 0, kAnyPage);
  Mailbox in = cq_command().set(kCqc + 15, 31, 0, 12345 * 8);
  EXPECT_NE(create(in), nullptr) << out.syndrome();
}

}  // namespace
}  // namespace peal::softnic::abi_test
