// SPDX-License-Identifier: Apache-2.0
//
// From (address, pe) to queue, offset and key; and every way in which a call can be wrong. The
// first mistake of a context is kept with its arguments, and quiet tells.
#include "device/detail/resolve.h"

#include <algorithm>
#include <array>
#include <memory>
#include <utility>
#include <vector>

#include "device/sync.h"
#include "gtest/gtest.h"
#include "tests/support/device_rig.h"

namespace peal {
namespace {

using testing::DeviceRig;

template <Reach R>
PEAL_DEVICE detail::Destination where(const BasicContext<R>& ctx, const void* address,
                                      uint64_t bytes, int pe) {
  return detail::resolve(ctx, {address, bytes, pe});
}

/// Remote keys for one more window: one per PE.
constexpr std::array<NicKey, 2> kKeys = {mlx5::key(0xcafe0001), mlx5::key(0xcafe0002)};

void add_window(DeviceRig& rig, std::byte* base, uint64_t bytes, const NicKey* rkeys) {
  WindowTable& table = rig.windows();
  table.window[table.count] = {base,  bytes, {mlx5::key(0x5151), mlx5::key(0x5252)},
                               rkeys, rkeys, nullptr};
  ++table.count;
}

TEST(Resolve, AnAddressBecomesAnOffsetAndTheKeyOfItsPe) {
  DeviceRig rig({.n_pes = 3});
  for (int pe = 0; pe < 3; ++pe) {
    const auto d = where(rig.context(), rig.local<char>(0x123), 8, pe);
    EXPECT_EQ(d.status, Status::kOk);
    EXPECT_EQ(d.remote.address, 0x123u);
    EXPECT_EQ(d.remote.key, mlx5::key(DeviceRig::rkey(0, pe)));
    EXPECT_EQ(d.queue, &rig.queue(pe));
  }
}

TEST(Resolve, AWordHasTheStrictlyOrderedKey) {
  DeviceRig rig;
  const std::array<NicKey, 2> strict = {mlx5::key(0x51000000), mlx5::key(0x51000001)};
  rig.windows().window[0].word_rkeys = strict.data();
  const auto word =
      detail::resolve(rig.context(), {rig.local<char>(8), 8, 1, detail::Use::kWord, true});
  EXPECT_EQ(word.remote.key, mlx5::key(0x51000001));
  EXPECT_EQ(where(rig.context(), rig.local<char>(8), 8, 1).remote.key,
            mlx5::key(DeviceRig::rkey(0, 1)));
}

TEST(Resolve, TheWholeWindowIsInside) {
  DeviceRig rig;
  const auto all = where(rig.context(), rig.heap(), DeviceRig::kHeapBytes, 1);
  EXPECT_EQ(all.status, Status::kOk);
  const auto last = where(rig.context(), rig.heap() + DeviceRig::kHeapBytes - 1, 1, 1);
  EXPECT_EQ(last.status, Status::kOk);
  EXPECT_EQ(last.remote.address, DeviceRig::kHeapBytes - 1);
}

TEST(Resolve, NothingAtTheEndOfAWindowIsInside) {
  DeviceRig rig;
  const auto none = where(rig.context(), rig.heap() + DeviceRig::kHeapBytes, 0, 1);
  EXPECT_EQ(none.status, Status::kOk) << "an empty slice behind the last element";
}

/// How many of `warps` are on each queue in a turn.
std::vector<uint32_t> loads(uint32_t warps, uint32_t queues, uint32_t turn) {
  std::vector<uint32_t> on(queues);
  for (uint32_t w = 0; w < warps; ++w) ++on[detail::queue_in_turn(w, queues, turn)];
  return on;
}

TEST(QueueChoice, InNoTurnHasAQueueTwoWarpsMoreThanAnother) {
  for (const uint32_t queues : {9u, 16u, 23u, 64u}) {
    for (uint32_t warps = 1; warps < detail::kManyLayers * queues; ++warps) {
      for (const uint32_t turn : {0u, 1u, 5u, 63u, 1'000'003u}) {
        const auto on = loads(warps, queues, turn);
        const auto [least, most] = std::minmax_element(on.begin(), on.end());
        ASSERT_LE(*most - *least, 1u) << warps << " warps, " << queues << " queues, turn " << turn;
      }
    }
  }
}

TEST(QueueChoice, NoWarpStaysWhereMoreMeet) {
  using Case = std::pair<uint32_t, uint32_t>;
  for (const auto& [warps, queues] : {Case{132, 64}, {65, 9}, {17, 10}, {100, 13}}) {
    ASSERT_TRUE(detail::take_turns(warps, queues));
    const uint32_t full = warps / queues * queues;
    std::vector<uint32_t> crowded(warps);  // turns in which its queue had one more than others
    for (uint32_t turn = 0; turn < queues; ++turn) {
      const auto on = loads(warps, queues, turn);
      for (uint32_t w = 0; w < warps; ++w) {
        if (on[detail::queue_in_turn(w, queues, turn)] > warps / queues) ++crowded[w];
      }
    }
    // Those of the last layer always have one more. Of the others none stays with one of them.
    for (uint32_t w = 0; w < full; ++w) {
      EXPECT_LT(crowded[w], queues) << "warp " << w << " of " << warps << " on " << queues;
    }
  }
}

TEST(QueueChoice, TurnsAreForSomewhatMoreWarpsThanQueues) {
  EXPECT_FALSE(detail::take_turns(64, 64));
  EXPECT_FALSE(detail::take_turns(3, 64));
  EXPECT_TRUE(detail::take_turns(128, 64));
  EXPECT_TRUE(detail::take_turns(132, 64));
  EXPECT_FALSE(detail::take_turns(17, 4)) << "two of the layers would stay together";
  EXPECT_FALSE(detail::take_turns(132, 9)) << "14 and 15 warps on each";
}

/// A window whose parts begin at different bytes of a page and have different sizes.
struct Uneven {
  alignas(64) std::array<std::byte, 64> memory;
  std::array<WindowPart, 2> parts{{{0, 64}, {12, 1000}}};
  WindowHandle handle;

  explicit Uneven(DeviceRig& rig) : handle{rig.windows().count} {
    add_window(rig, memory.data(), memory.size(), kKeys.data());
    rig.windows().window[handle.number].parts = parts.data();
  }
};

TEST(Resolve, APartBeginsWhereItsPeHasIt) {
  DeviceRig rig;
  Uneven window(rig);
  EXPECT_EQ(where(rig.context(), &window.memory[5], 8, 0).remote.address, 5u);
  EXPECT_EQ(where(rig.context(), &window.memory[5], 8, 1).remote.address, 12u + 5);
  EXPECT_EQ(where(rig.context(), window.handle.at(5), 8, 1).remote.address, 12u + 5);
}

TEST(Resolve, AHandleReachesAllOfThePeersPart) {
  DeviceRig rig;
  Uneven window(rig);
  const auto last = where(rig.context(), window.handle.at(992), 8, 1);
  EXPECT_EQ(last.status, Status::kOk);
  EXPECT_EQ(last.remote.address, 12u + 992);
  EXPECT_EQ(last.remote.key, kKeys[1]);
  EXPECT_EQ(window.handle.at<uint64_t>(8) + 2, window.handle.at<uint64_t>(24));
}

TEST(Resolve, AHandleReachesNoFurther) {
  DeviceRig rig;
  Uneven window(rig);
  EXPECT_EQ(where(rig.context(), window.handle.at(993), 8, 1).status, Status::kNotSymmetric);
  EXPECT_EQ(where(rig.context(), window.handle.at(57), 8, 0).status, Status::kNotSymmetric);
  EXPECT_EQ(where(rig.context(), window.handle.at(1 << 20), 1, 0).status, Status::kNotSymmetric);
}

TEST(Resolve, NothingHasNoAddressButAPe) {
  DeviceRig rig;
  Uneven window(rig);
  EXPECT_EQ(where(rig.context(), nullptr, 0, 1).status, Status::kOk);
  EXPECT_EQ(where(rig.context(), window.handle.at(1 << 20), 0, 0).status, Status::kOk);
  EXPECT_EQ(rig.usage().status, 0u);
  EXPECT_EQ(where(rig.context(), nullptr, 0, 2).status, Status::kBadPe);
}

TEST(Resolve, APartIsTheOneOfThePe) {
  DeviceRig rig;
  Uneven window(rig);
  window.parts[1].bytes = 16;
  EXPECT_EQ(where(rig.context(), &window.memory[8], 8, 1).status, Status::kOk);
  EXPECT_EQ(where(rig.context(), &window.memory[16], 8, 1).status, Status::kNotSymmetric);
}

TEST(Resolve, AWordIsAlignedAtItsPe) {
  DeviceRig rig;
  Uneven window(rig);
  const auto word = [&](const void* at, int pe) {
    return detail::resolve(rig.context(), {at, 8, pe, detail::Use::kWord, true}).status;
  };
  EXPECT_EQ(word(&window.memory[8], 0), Status::kOk);
  EXPECT_EQ(word(&window.memory[8], 1), Status::kMisaligned);
  EXPECT_EQ(word(window.handle.at(4), 1), Status::kOk);
}

TEST(Resolve, AHandleOfNoWindowNamesNothing) {
  DeviceRig rig;
  EXPECT_EQ(where(rig.context(), WindowHandle{}.at(), 8, 1).status, Status::kNotSymmetric);
  EXPECT_EQ(where(rig.context(), WindowHandle{77}.at(), 8, 1).status, Status::kNotSymmetric);
  std::byte buffer[64];
  add_window(rig, buffer, sizeof buffer, nullptr);
  EXPECT_EQ(where(rig.context(), WindowHandle{1}.at(), 8, 1).status, Status::kNotSymmetric)
      << "of this PE alone";
  EXPECT_EQ(
      detail::find_window(&rig.windows(), WindowHandle{1}.at(), 8, detail::Side::kHome).window,
      nullptr);
}

/// Hazard: an index that the host is replacing names a window that does not hold the range.
TEST(Resolve, AHintIsNotBelieved) {
  DeviceRig rig;
  std::byte first[64], second[64];
  add_window(rig, first, sizeof first, kKeys.data());
  add_window(rig, second, sizeof second, kKeys.data());
  const auto index = std::make_unique<WindowIndex>();
  const uint64_t granule = reinterpret_cast<uint64_t>(second) >> 40;
  index->slot[WindowIndex::first_slot(granule, 31)] = {granule, 0, 1};
  rig.windows().published = {index.get(), 40, 31};
  for (const uint32_t hint : {0u, 1u, 2u}) {
    index->span[0] = {0, hint, hint};
    const auto place = detail::find_window(&rig.windows(), second, 64, detail::Side::kPeer);
    EXPECT_EQ(place.window, &rig.windows().window[2]) << hint;
    EXPECT_EQ(detail::find_window(&rig.windows(), second, 65, detail::Side::kPeer).window, nullptr);
  }
}

struct Wrong {
  const char* name;
  ptrdiff_t offset;  // from the heap's base
  uint64_t bytes;
  int pe;
  Status status;
};

void PrintTo(const Wrong& wrong, std::ostream* out) { *out << wrong.name; }

constexpr auto kHeap = static_cast<ptrdiff_t>(DeviceRig::kHeapBytes);
const Wrong kWrong[] = {
    {"PeTooLarge", 0, 8, 2, Status::kBadPe},
    {"PeNegative", 0, 8, -1, Status::kBadPe},
    {"PeSmallest", 0, 8, INT32_MIN, Status::kBadPe},
    {"BeforeTheWindow", -1, 1, 1, Status::kNotSymmetric},
    {"BehindTheWindow", kHeap, 1, 1, Status::kNotSymmetric},
    {"StraddlingTheEnd", kHeap - 7, 8, 1, Status::kNotSymmetric},
    {"StraddlingTheStart", -4, 8, 1, Status::kNotSymmetric},
    {"LongerThanTheWindow", 0, kHeap + 1, 1, Status::kNotSymmetric},
    {"SoLongThatTheEndWraps", 8, ~uint64_t{0}, 1, Status::kNotSymmetric},
};

class ResolveRefuses : public ::testing::TestWithParam<Wrong> {};

TEST_P(ResolveRefuses, AndKeepsTheArguments) {
  DeviceRig rig;
  const Wrong& wrong = GetParam();
  const auto address =
      reinterpret_cast<uintptr_t>(rig.heap()) + static_cast<uintptr_t>(wrong.offset);
  const auto d =
      where(rig.context(), reinterpret_cast<const void*>(address), wrong.bytes, wrong.pe);
  EXPECT_EQ(d.status, wrong.status);
  EXPECT_EQ(d.queue, nullptr);
  EXPECT_EQ(rig.usage().status, static_cast<uint32_t>(wrong.status));
  EXPECT_EQ(rig.usage().pe, wrong.pe);
  EXPECT_EQ(rig.usage().address, address);
  EXPECT_EQ(rig.usage().bytes, wrong.bytes);
}

INSTANTIATE_TEST_SUITE_P(Every, ResolveRefuses, ::testing::ValuesIn(kWrong),
                         [](const auto& tested) { return std::string(tested.param.name); });

TEST(Resolve, TheNullPointerIsNotSymmetric) {
  DeviceRig rig;
  EXPECT_EQ(where(rig.context(), nullptr, 8, 1).status, Status::kNotSymmetric);
}

TEST(Resolve, ASecondWindowHasItsOwnKeysAndOffsets) {
  DeviceRig rig;
  std::byte buffer[256];
  add_window(rig, buffer, sizeof buffer, kKeys.data());
  const auto d = where(rig.context(), buffer + 100, 8, 1);
  EXPECT_EQ(d.status, Status::kOk);
  EXPECT_EQ(d.remote.address, 100u);
  EXPECT_EQ(d.remote.key, mlx5::key(0xcafe0002));
}

TEST(Resolve, ARangeOverTwoNeighbouringWindowsIsInNeither) {
  DeviceRig rig;
  std::byte buffer[256];
  add_window(rig, buffer, 128, kKeys.data());
  add_window(rig, buffer + 128, 128, kKeys.data());
  EXPECT_EQ(where(rig.context(), buffer + 128, 8, 1).remote.address, 0u);
  EXPECT_EQ(where(rig.context(), buffer + 124, 8, 1).status, Status::kNotSymmetric);
}

TEST(Resolve, MemoryRegisteredAtHomeIsNoRemoteTarget) {
  DeviceRig rig;
  std::byte buffer[256];
  add_window(rig, buffer, sizeof buffer, nullptr);
  EXPECT_EQ(where(rig.context(), buffer, 8, 1).status, Status::kNotSymmetric);
}

TEST(Resolve, MemoryRegisteredAtHomeIsASource) {
  DeviceRig rig;
  std::byte buffer[256];
  add_window(rig, buffer, sizeof buffer, nullptr);
  const auto from = detail::resolve_local(rig.context(), rig.queue(1), buffer + 16, 200);
  EXPECT_EQ(from.status, Status::kOk);
  EXPECT_EQ(from.local.address, 16u);
  EXPECT_EQ(from.local.key, mlx5::key(0x5151));
}

TEST(Resolve, UnregisteredMemoryIsNoSource) {
  DeviceRig rig;
  std::byte buffer[64];
  EXPECT_EQ(detail::resolve_local(rig.context(), rig.queue(1), buffer, 64).status,
            Status::kNotRegistered);
  EXPECT_EQ(rig.usage().status, 0u) << "its caller may do without";
}

TEST(Resolve, WindowsThatAreNotPublishedAreNotSeen) {
  DeviceRig rig;
  std::byte buffer[64];
  rig.windows().window[1] = {buffer,       sizeof buffer, {mlx5::key(1)},
                             kKeys.data(), kKeys.data(),  nullptr};
  EXPECT_EQ(where(rig.context(), buffer, 8, 1).status, Status::kNotSymmetric);
}

TEST(Resolve, TheFirstMistakeIsKept) {
  DeviceRig rig;
  where(rig.context(), rig.heap() + 8, 16, 7);
  where(rig.context(), nullptr, 8, 1);
  EXPECT_EQ(rig.usage().status, static_cast<uint32_t>(Status::kBadPe));
  EXPECT_EQ(rig.usage().pe, 7);
  EXPECT_EQ(rig.usage().bytes, 16u);
}

// Another block's call has been refused, and is still writing down what the host will read.
TEST(Resolve, AMistakeCountsBeforeAllOfItIsWritten) {
  DeviceRig rig;
  rig.state().usage.claimed = static_cast<uint32_t>(Status::kBadPe);
  EXPECT_EQ(quiet(rig.context()), Status::kBadPe);
}

PEAL_KERNEL every_lane_is_wrong(Context ctx, uint32_t* wrong) {
  const int pe = 100 + static_cast<int>(block_in_grid());
  const auto d = where(ctx, nullptr, block_in_grid(), pe);
  if (d.status == Status::kBadPe) atomicAdd(wrong, 1u);
}

TEST(Resolve, OneOfManyMistakesIsKeptWhole) {
  DeviceRig rig;
  uint32_t wrong = 0;
  launch({.blocks = 4, .threads = 64}, every_lane_is_wrong, rig.context(), &wrong).wait();
  EXPECT_EQ(wrong, 256u);
  EXPECT_EQ(rig.usage().pe, 100 + static_cast<int>(rig.usage().lane.block));
  EXPECT_EQ(rig.usage().bytes, rig.usage().lane.block);
}

PEAL_KERNEL queue_of_block(Context ctx, SendQueue** out) {
  const auto d = where(ctx, reinterpret_cast<const void*>(ctx.windows->window[0].base), 8, 1);
  out[block_in_grid()] = d.queue;
}

TEST(Resolve, BlocksAreDealtOverTheQueuesOfAPeer) {
  DeviceRig rig({.n_pes = 2, .queues_per_peer = 3});
  SendQueue* out[7] = {};
  launch({.blocks = 7, .threads = 1}, queue_of_block, rig.context(), out).wait();
  for (uint32_t b = 0; b < 7; ++b) {
    EXPECT_EQ(out[b], &rig.queue(1, b % 3));
    EXPECT_EQ(out[b]->peer, 1u);
  }
}

TEST(Resolve, QuietAndFenceReportTheMistake) {
  DeviceRig rig;
  EXPECT_EQ(quiet(rig.context()), Status::kOk);
  EXPECT_EQ(p(rig.context(), rig.local<int>(0), 1, 9), Status::kBadPe);
  EXPECT_EQ(quiet(rig.context()), Status::kBadPe);
  EXPECT_EQ(fence(rig.context()), Status::kBadPe);
}

TEST(Resolve, AMappedPeerIsReachedDirectly) {
  DeviceRig rig;
  std::byte* direct[2] = {nullptr, rig.heap_of(1)};
  rig.windows().window[0].direct = direct;
  const auto near = where(rig.context(), rig.heap() + 24, 8, 1);
  EXPECT_EQ(near.direct, rig.heap_of(1) + 24);
  EXPECT_EQ(near.status, Status::kOk);
  const auto far = where(rig.context(), rig.heap() + 24, 8, 0);
  EXPECT_EQ(far.direct, nullptr);
  EXPECT_EQ(far.queue, &rig.queue(0));
}

TEST(Resolve, APeerThatIsNoLongerMappedIsMaskedWhichIsNoMistake) {
  DeviceRig rig;
  std::byte buffer[64];
  std::byte* direct[2] = {nullptr, buffer};
  rig.windows().window[1] = {buffer, sizeof buffer, {mlx5::key(1)}, nullptr, nullptr, direct};
  rig.windows().count = 2;
  EXPECT_EQ(where(rig.context(), buffer, 8, 1).direct, buffer);
  EXPECT_EQ(where(rig.context(), buffer, 8, 0).status, Status::kPeerMasked);
  EXPECT_EQ(rig.usage().status, 0u);
}

TEST(Resolve, APointerToAPeerNeedsAMapping) {
  DeviceRig rig;
  std::byte* direct[2] = {nullptr, rig.heap_of(1)};
  EXPECT_EQ(ptr(rig.context(), rig.local<int>(64), 1), nullptr);
  rig.windows().window[0].direct = direct;
  EXPECT_EQ(ptr(rig.context(), rig.local<int>(64), 1), rig.remote<int>(1, 64));
  EXPECT_EQ(ptr(rig.context(), rig.local<int>(64), 0), rig.local<int>(64));
  EXPECT_EQ(ptr(rig.context(), rig.local<int>(64), 2), nullptr);
  EXPECT_EQ(ptr(rig.context(), rig.local<int>(64), -1), nullptr);
  int elsewhere = 0;
  EXPECT_EQ(ptr(rig.context(), &elsewhere, 1), nullptr);
  EXPECT_EQ(rig.usage().status, 0u) << "asking is no mistake";
}

}  // namespace
}  // namespace peal
