// SPDX-License-Identifier: Apache-2.0
//
// Host memory that several windows are of: pinned once, and as long as one of them lasts. The
// driver, here a fake, refuses what it has pinned already.
#include <gtest/gtest.h>

#include <memory>

#include "host/memory/backing.h"
#include "host/memory/backing_cuda.h"
#include "tests/support/error_of.h"
#include "tests/support/fake_cuda.h"

namespace peal {
namespace {

constexpr size_t kPage = 4096;

class PinnedPagesOnGpu : public testing::Test {
 protected:
  PinnedPagesOnGpu()
      : fake_(load_fake_cuda()),
        gpu_(Gpu::open(0, 0)),
        pages_(gpu_),
        memory_(make_host_backing(16 * kPage, "test")),
        live_(fake_.live) {}
  ~PinnedPagesOnGpu() override {
    EXPECT_EQ(fake_.live, live_);
    EXPECT_EQ(fake_.mistakes, 0);
  }

  std::byte* at(size_t offset) const { return memory_.address() + offset; }
  bool known(size_t first, size_t last) const {
    return gpu_->knows(at(first)) && gpu_->knows(at(last));
  }
  int pinned() const { return fake_.live - live_; }

  FakeCuda& fake_;
  std::shared_ptr<Gpu> gpu_;
  PinnedPages pages_;
  Backing memory_;
  int live_;
};

TEST_F(PinnedPagesOnGpu, PinsWholePagesAndEndsThem) {
  auto held = pages_.hold(at(kPage + 100), 2 * kPage);
  EXPECT_TRUE(known(kPage, 4 * kPage - 1));
  EXPECT_FALSE(known(0, 4 * kPage));
  EXPECT_EQ(pinned(), 1);
  held.reset();
  EXPECT_EQ(pinned(), 0);
  held = pages_.hold(at(kPage + 100), 2 * kPage);
  EXPECT_EQ(pinned(), 1);
}

TEST_F(PinnedPagesOnGpu, RangesOfOnePageShareIt) {
  auto first = pages_.hold(at(10), 20);
  auto second = pages_.hold(at(100), 20);
  EXPECT_EQ(pinned(), 1);
  first.reset();
  EXPECT_TRUE(known(100, 119));
  second.reset();
  EXPECT_EQ(pinned(), 0);
}

TEST_F(PinnedPagesOnGpu, RangesThatOverlapLastAsLongAsEachIsUsed) {
  auto middle = pages_.hold(at(4 * kPage), 2 * kPage);
  auto end = pages_.hold(at(9 * kPage), kPage);
  auto all = pages_.hold(at(2 * kPage + 1), 10 * kPage);
  EXPECT_EQ(pinned(), 5);  // two that were there, and what lies before, between and behind them
  middle.reset();
  end.reset();
  EXPECT_TRUE(known(4 * kPage, 9 * kPage));
  EXPECT_TRUE(known(2 * kPage, 13 * kPage - 1));
  auto inside = pages_.hold(at(5 * kPage), kPage);
  all.reset();
  EXPECT_TRUE(known(5 * kPage, 6 * kPage - 1));
  EXPECT_FALSE(known(2 * kPage, 5 * kPage));
  EXPECT_EQ(pinned(), 1);
}

TEST_F(PinnedPagesOnGpu, LeavesWhatCudaKnowsToItsOwner) {
  PinnedRange owners = pin(gpu_, at(kPage + 8), 100);
  auto held = pages_.hold(at(kPage + 10), 50);
  EXPECT_EQ(pinned(), 1);
  held.reset();
  EXPECT_EQ(pinned(), 1);
}

TEST_F(PinnedPagesOnGpu, AFailureLeavesNothingBehind) {
  auto middle = pages_.hold(at(4 * kPage), kPage);
  PinnedRange owners = pin(gpu_, at(6 * kPage), kPage);
  expect_error(error_of([&] { pages_.hold(at(3 * kPage), 3 * kPage + 1); }), ErrorCode::kSystem,
               {"cuMemHostRegister(8192 bytes at "});
  EXPECT_EQ(pinned(), 2);
}

}  // namespace
}  // namespace peal
