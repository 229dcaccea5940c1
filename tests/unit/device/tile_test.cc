// SPDX-License-Identifier: Apache-2.0
//
// Tiles: what is posted for them, by whom, and which range of the peer they are refused for.
#include <cstdint>
#include <vector>

#include "device/rma.h"
#include "device/sync.h"
#include "gtest/gtest.h"
#include "tests/support/device_rig.h"

namespace peal {
namespace {

using testing::DeviceRig;
using testing::NicThread;

/// An element that is no word, and longer than a request may carry inline.
struct Wide {
  uint32_t word[11];
};

template <class T>
T element(size_t i) {
  T value{};
  auto* const bytes = reinterpret_cast<unsigned char*>(&value);
  for (size_t k = 0; k < sizeof(T); ++k) bytes[k] = static_cast<unsigned char>(7 * i + k + 1);
  return value;
}

template <Reach R, class S, class T>
PEAL_KERNEL there_and_back(BasicContext<R> ctx, S scope, T* far, T* home, Tile tile, Status* out) {
  if (scope.size() == 1 && thread_in_block() != 0) return;
  T* const back = home + tile.rows * static_cast<size_t>(tile.pitch.src);
  Status status = put(ctx, scope, far, home, tile, 1);
  if (status == Status::kOk) status = quiet(ctx, scope);
  const Tile returned{tile.rows, tile.columns, {tile.pitch.src, tile.pitch.dst}};
  if (status == Status::kOk) status = get(ctx, scope, back, far, returned, 1);
  for (size_t row = 0; row < tile.rows && status == Status::kOk; ++row) {
    for (size_t i = 0; i < tile.columns; ++i) {  // what other lanes have fetched, too
      const size_t at = row * static_cast<size_t>(tile.pitch.src) + i;
      if (memcmp(&back[at], &home[at], sizeof(T)) != 0) status = Status::kMismatch;
    }
  }
  out[thread_in_block()] = status;
}

template <class T, Reach R, class S>
void expect_tile(S scope, uint32_t lanes, bool mapped, const Tile& tile) {
  DeviceRig rig;
  std::byte* direct[2] = {nullptr, rig.heap_of(1)};
  if (mapped) rig.windows().window[0].direct = direct;
  const size_t home_elements = tile.rows * static_cast<size_t>(tile.pitch.src);
  auto* const home = rig.local<T>(0x8000);
  for (size_t i = 0; i < home_elements; ++i) home[i] = element<T>(i);
  std::vector<Status> out(lanes, Status::kOk);
  {
    const NicThread nics(rig);
    launch({.blocks = 1, .threads = lanes}, there_and_back<R, S, T>, rig.context<R>(), scope,
           rig.local<T>(0x100), home, tile, out.data())
        .wait();
  }
  EXPECT_EQ(out, std::vector<Status>(lanes, Status::kOk));
  const T* const far = rig.remote<T>(1, 0x100);
  const T nothing{};
  for (size_t row = 0; row < tile.rows; ++row) {
    for (size_t i = 0; i < static_cast<size_t>(tile.pitch.dst); ++i) {
      const T wanted =
          i < tile.columns ? element<T>(row * static_cast<size_t>(tile.pitch.src) + i) : nothing;
      ASSERT_EQ(memcmp(&far[row * static_cast<size_t>(tile.pitch.dst) + i], &wanted, sizeof(T)), 0)
          << "row " << row << ", element " << i;
    }
  }
  EXPECT_EQ(rig.complaints(), "");
}

template <class T>
void expect_tiles() {
  for (const bool mapped : {false, true}) {
    for (const Tile& tile : {Tile{7, 3, {5, 4}}, Tile{1, 20, {20, 21}}, Tile{5, 4, {4, 4}},
                             Tile{13, 1, {3, 2}}, Tile{2, 30, {31, 40}}, Tile{0, 3, {4, 4}}}) {
      expect_tile<T, Reach::kGpu>(thread, 1, mapped, tile);
      expect_tile<T, Reach::kGpu>(warp, 32, mapped, tile);
      expect_tile<T, Reach::kLane>(warp, 32, mapped, tile);
      expect_tile<T, Reach::kBlock>(block, 50, mapped, tile);
    }
  }
}
TEST(Tile, OfBytes) { expect_tiles<char>(); }
TEST(Tile, OfWords) { expect_tiles<uint64_t>(); }
TEST(Tile, OfElementsThatAreNoWords) { expect_tiles<Wide>(); }

TEST(Tile, WithoutGapsIsOneRequest) {
  DeviceRig rig;
  EXPECT_EQ(put_nbi(rig.context(), thread, rig.local<int>(0), rig.local<int>(0x800),
                    Tile{6, 10, {10, 10}}, 1)
                .status,
            Status::kOk);
  ASSERT_EQ(rig.step_all(), 1u);
  EXPECT_EQ(rig.nic(1).seen()[0].data_bytes(), 240u);
}

TEST(Tile, HasARequestForEachRow) {
  DeviceRig rig;
  const Ticket ticket = get_nbi(rig.context(), thread, rig.local<int>(0), rig.local<int>(0x800),
                                Tile{6, 10, {16, 12}}, 1);
  ASSERT_EQ(ticket.status, Status::kOk);
  EXPECT_FALSE(test(rig.context(), ticket));
  ASSERT_EQ(rig.step_all(), 6u);
  EXPECT_TRUE(test(rig.context(), ticket));
  for (size_t row = 0; row < 6; ++row) {
    EXPECT_EQ(rig.nic(1).seen()[row].remote_address(), 0x800 + row * 48);
    EXPECT_EQ(rig.nic(1).seen()[row].local_address(), row * 64);
    EXPECT_EQ(rig.nic(1).seen()[row].data_bytes(), 40u);
  }
}

PEAL_KERNEL post_tile(Context ctx, int* far, int* home, Ticket* tickets) {
  tickets[thread_in_block()] = put_nbi(ctx, block, far, home, Tile{100, 9, {10, 12}}, 1);
}

// Rows are posted by many lanes: the ticket of one of them says nothing of the others'.
TEST(Tile, TheTicketOfABlockCoversTheRowsOfAllLanes) {
  DeviceRig rig;
  std::vector<Ticket> tickets(40);
  launch({.blocks = 1, .threads = 40}, post_tile, rig.context(), rig.local<int>(0x100),
         rig.local<int>(0x8000), tickets.data())
      .wait();
  const auto ctx = rig.context();
  for (int row = 0; row < 99; ++row) ASSERT_EQ(rig.nic(1).step(1), 1u);
  for (const Ticket& ticket : tickets) EXPECT_FALSE(test(ctx, ticket));
  rig.step_all();
  for (const Ticket& ticket : tickets) EXPECT_TRUE(test(ctx, ticket));
}

TEST(Tile, ARangeThatDoesNotFitIsRefusedAsAWhole) {
  DeviceRig rig;
  const auto ctx = rig.context();
  auto* const end = rig.local<int>(DeviceRig::kHeapBytes);
  int source[64] = {};
  const Tile tile{4, 2, {16, 16}};  // 50 elements from first to last
  EXPECT_EQ(put(ctx, thread, end - 50, source, tile, 1), Status::kOk);
  EXPECT_EQ(put(ctx, thread, end - 49, source, tile, 1), Status::kNotSymmetric);
  EXPECT_EQ(rig.usage().address, reinterpret_cast<uint64_t>(end - 49));
  EXPECT_EQ(rig.usage().bytes, 200u);
  EXPECT_EQ(posted_end(rig.queue(1).posted), 4u);
}

TEST(Tile, BackwardsItsLowestRowCounts) {
  DeviceRig rig;
  const auto ctx = rig.context();
  int source[64] = {};
  const Tile tile{4, 2, {-16, 16}};
  EXPECT_EQ(put(ctx, thread, rig.local<int>(0) + 48, source, tile, 1), Status::kOk);
  EXPECT_EQ(put(ctx, thread, rig.local<int>(0) + 47, source, tile, 1), Status::kNotSymmetric);
}

// A span that wraps around 64 bits looks small.
TEST(Tile, ASpanThatNoAddressHoldsIsRefused) {
  DeviceRig rig;
  const auto ctx = rig.context();
  char source = 0;
  const auto huge = static_cast<ptrdiff_t>(size_t{1} << 62);
  EXPECT_EQ(put(ctx, thread, rig.local<char>(0), &source, Tile{5, 1, {huge, 0}}, 1),
            Status::kNotSymmetric);
  EXPECT_EQ(
      put(ctx, thread, rig.local<char>(0), &source, Tile{(size_t{1} << 63) + 1, 1, {2, 0}}, 1),
      Status::kNotSymmetric);
  EXPECT_EQ(put(ctx, thread, rig.local<char>(0), &source, Tile{size_t{1} << 63, 2, {2, 2}}, 1),
            Status::kNotSymmetric);
}

TEST(Tile, ABadPeIsRefusedEvenForNothing) {
  DeviceRig rig;
  int value = 0;
  EXPECT_EQ(put(rig.context(), thread, rig.local<int>(0), &value, Tile{0, 1, {1, 1}}, 2),
            Status::kBadPe);
  EXPECT_EQ(get(rig.context(), thread, &value, rig.local<int>(0), Tile{1, 1, {1, 1}}, -1),
            Status::kBadPe);
}

TEST(Tile, ALocalSideOutsideAllWindowsIsRefused) {
  DeviceRig rig;
  const NicThread nics(rig);
  std::vector<int> mine(1024);
  EXPECT_EQ(put(rig.context(), thread, rig.local<int>(0), mine.data(), Tile{2, 257, {257, 300}}, 1),
            Status::kNotRegistered);
  EXPECT_EQ(get(rig.context(), thread, mine.data(), rig.local<int>(0), Tile{2, 257, {257, 300}}, 1),
            Status::kNotRegistered);
}

}  // namespace
}  // namespace peal
