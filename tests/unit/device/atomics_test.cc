// SPDX-License-Identifier: Apache-2.0
//
// Every atomic on words of four and eight bytes: its WQE byte for byte, its effect, its answer.
#include "device/atomics.h"

#include <set>
#include <string>
#include <vector>

#include "device/sync.h"
#include "gtest/gtest.h"
#include "tests/support/device_rig.h"

namespace peal {
namespace {

using testing::DeviceRig;
using testing::NicThread;
using testing::SeenWqe;

constexpr size_t kWord = 0x40;
constexpr uint32_t kOld4 = 0xf0f01234;
constexpr uint32_t kNew4 = 0x0ff0aaaa;
constexpr uint64_t kOld8 = 0xf0f0123456789abc;
constexpr uint64_t kNew8 = 0x0ff0aaaa55550001;

/// One call of the API: what it posts behind control and remote segment, what it leaves behind.
template <class T>
struct Case {
  const char* name;
  Fetched<T> (*call)(const Context&, T*);
  const char* control;   // first eight bytes
  const char* operands;  // up to the data segment
  T after;
  bool fetches;
};

template <class T>
void PrintTo(const Case<T>& tested, std::ostream* out) {
  *out << tested.name;
}

#define PEAL_CALL(T, ...) [](const Context& c, T* w) -> Fetched<T> { return __VA_ARGS__; }
#define PEAL_POST(T, ...) [](const Context& c, T* w) -> Fetched<T> { return {T{}, __VA_ARGS__}; }

const Case<uint32_t> kCases4[] = {
    {"Fetch", PEAL_CALL(uint32_t, atomic_fetch(c, w, 1)), "08000015 abc00104",
     "00000000 00000000 00000000 00000000", kOld4, true},
    {"Set", PEAL_POST(uint32_t, atomic_set(c, w, kNew4, 1)), "08000014 abc00104",
     "0ff0aaaa 00000000 ffffffff 00000000", kNew4, false},
    {"Swap", PEAL_CALL(uint32_t, atomic_swap(c, w, kNew4, 1)), "08000014 abc00104",
     "0ff0aaaa 00000000 ffffffff 00000000", kNew4, true},
    {"CompareSwapHit", PEAL_CALL(uint32_t, atomic_compare_swap(c, w, kOld4, kNew4, 1)),
     "08000014 abc00104", "0ff0aaaa f0f01234 ffffffff ffffffff", kNew4, true},
    {"CompareSwapMiss", PEAL_CALL(uint32_t, atomic_compare_swap(c, w, 1, kNew4, 1)),
     "08000014 abc00104", "0ff0aaaa 00000001 ffffffff ffffffff", kOld4, true},
    {"Add", PEAL_POST(uint32_t, atomic_add(c, w, kNew4, 1)), "08000015 abc00104",
     "0ff0aaaa 00000000 00000000 00000000", kOld4 + kNew4, false},
    {"FetchAdd", PEAL_CALL(uint32_t, atomic_fetch_add(c, w, kNew4, 1)), "08000015 abc00104",
     "0ff0aaaa 00000000 00000000 00000000", kOld4 + kNew4, true},
    {"Inc", PEAL_POST(uint32_t, atomic_inc(c, w, 1)), "08000015 abc00104",
     "00000001 00000000 00000000 00000000", kOld4 + 1, false},
    {"FetchInc", PEAL_CALL(uint32_t, atomic_fetch_inc(c, w, 1)), "08000015 abc00104",
     "00000001 00000000 00000000 00000000", kOld4 + 1, true},
    {"And", PEAL_POST(uint32_t, atomic_and(c, w, kNew4, 1)), "08000014 abc00104",
     "0ff0aaaa 00000000 f00f5555 00000000", kOld4& kNew4, false},
    {"FetchAnd", PEAL_CALL(uint32_t, atomic_fetch_and(c, w, kNew4, 1)), "08000014 abc00104",
     "0ff0aaaa 00000000 f00f5555 00000000", kOld4& kNew4, true},
    {"Or", PEAL_POST(uint32_t, atomic_or(c, w, kNew4, 1)), "08000014 abc00104",
     "0ff0aaaa 00000000 0ff0aaaa 00000000", kOld4 | kNew4, false},
    {"FetchOr", PEAL_CALL(uint32_t, atomic_fetch_or(c, w, kNew4, 1)), "08000014 abc00104",
     "0ff0aaaa 00000000 0ff0aaaa 00000000", kOld4 | kNew4, true},
    {"Xor", PEAL_POST(uint32_t, atomic_xor(c, w, kNew4, 1)), "08000015 abc00104",
     "0ff0aaaa ffffffff 00000000 00000000", kOld4 ^ kNew4, false},
    {"FetchXor", PEAL_CALL(uint32_t, atomic_fetch_xor(c, w, kNew4, 1)), "08000015 abc00104",
     "0ff0aaaa ffffffff 00000000 00000000", kOld4 ^ kNew4, true},
};

const Case<uint64_t> kCases8[] = {
    {"Fetch", PEAL_CALL(uint64_t, atomic_fetch(c, w, 1)), "00000012 abc00104",
     "00000000 00000000 00000000 00000000", kOld8, true},
    {"Set", PEAL_POST(uint64_t, atomic_set(c, w, kNew8, 1)), "09000014 abc00105",
     "0ff0aaaa 55550001 00000000 00000000 ffffffff ffffffff 00000000 00000000", kNew8, false},
    {"Swap", PEAL_CALL(uint64_t, atomic_swap(c, w, kNew8, 1)), "09000014 abc00105",
     "0ff0aaaa 55550001 00000000 00000000 ffffffff ffffffff 00000000 00000000", kNew8, true},
    {"CompareSwapHit", PEAL_CALL(uint64_t, atomic_compare_swap(c, w, kOld8, kNew8, 1)),
     "00000011 abc00104", "0ff0aaaa 55550001 f0f01234 56789abc", kNew8, true},
    {"CompareSwapMiss", PEAL_CALL(uint64_t, atomic_compare_swap(c, w, 1, kNew8, 1)),
     "00000011 abc00104", "0ff0aaaa 55550001 00000000 00000001", kOld8, true},
    {"Add", PEAL_POST(uint64_t, atomic_add(c, w, kNew8, 1)), "00000012 abc00104",
     "0ff0aaaa 55550001 00000000 00000000", kOld8 + kNew8, false},
    {"FetchAdd", PEAL_CALL(uint64_t, atomic_fetch_add(c, w, kNew8, 1)), "00000012 abc00104",
     "0ff0aaaa 55550001 00000000 00000000", kOld8 + kNew8, true},
    {"Inc", PEAL_POST(uint64_t, atomic_inc(c, w, 1)), "00000012 abc00104",
     "00000000 00000001 00000000 00000000", kOld8 + 1, false},
    {"FetchInc", PEAL_CALL(uint64_t, atomic_fetch_inc(c, w, 1)), "00000012 abc00104",
     "00000000 00000001 00000000 00000000", kOld8 + 1, true},
    {"And", PEAL_POST(uint64_t, atomic_and(c, w, kNew8, 1)), "09000014 abc00105",
     "0ff0aaaa 55550001 00000000 00000000 f00f5555 aaaafffe 00000000 00000000", kOld8& kNew8,
     false},
    {"FetchAnd", PEAL_CALL(uint64_t, atomic_fetch_and(c, w, kNew8, 1)), "09000014 abc00105",
     "0ff0aaaa 55550001 00000000 00000000 f00f5555 aaaafffe 00000000 00000000", kOld8& kNew8, true},
    {"Or", PEAL_POST(uint64_t, atomic_or(c, w, kNew8, 1)), "09000014 abc00105",
     "0ff0aaaa 55550001 00000000 00000000 0ff0aaaa 55550001 00000000 00000000", kOld8 | kNew8,
     false},
    {"FetchOr", PEAL_CALL(uint64_t, atomic_fetch_or(c, w, kNew8, 1)), "09000014 abc00105",
     "0ff0aaaa 55550001 00000000 00000000 0ff0aaaa 55550001 00000000 00000000", kOld8 | kNew8,
     true},
    {"Xor", PEAL_POST(uint64_t, atomic_xor(c, w, kNew8, 1)), "09000015 abc00104",
     "0ff0aaaa 55550001 ffffffff ffffffff", kOld8 ^ kNew8, false},
    {"FetchXor", PEAL_CALL(uint64_t, atomic_fetch_xor(c, w, kNew8, 1)), "09000015 abc00104",
     "0ff0aaaa 55550001 ffffffff ffffffff", kOld8 ^ kNew8, true},
};

#undef PEAL_CALL
#undef PEAL_POST

template <class T>
void expect_case(const Case<T>& tested, T old) {
  DeviceRig rig;
  *rig.remote<T>(1, kWord) = old;
  Fetched<T> answer;
  {
    const NicThread nics(rig);
    answer = tested.call(rig.context(), rig.local<T>(kWord));
    EXPECT_EQ(quiet(rig.context()), Status::kOk);
  }
  EXPECT_EQ(answer.status, Status::kOk);
  if (tested.fetches) {
    EXPECT_EQ(answer.value, old);
  }
  EXPECT_EQ(*rig.remote<T>(1, kWord), tested.after);
  ASSERT_EQ(rig.nic(1).seen().size(), 1u);
  // Fetches land in cell 0, the others in the sink behind the 128 cells of 16 bytes.
  const std::string landing = tested.fetches ? "00000040" : "00000840";
  EXPECT_EQ(rig.nic(1).seen()[0].text(),
            std::string(tested.control) +
                " 00000008 00000000 00000000 00000040 11223301 00000000 " + tested.operands +
                (sizeof(T) == 4 ? " 00000004" : " 00000008") + " 77000001 00000000 " + landing);
}

class Atomic4 : public ::testing::TestWithParam<Case<uint32_t>> {};
TEST_P(Atomic4, IsOneWqeWithItsEffect) { expect_case(GetParam(), kOld4); }
INSTANTIATE_TEST_SUITE_P(Every, Atomic4, ::testing::ValuesIn(kCases4),
                         [](const auto& tested) { return std::string(tested.param.name); });

class Atomic8 : public ::testing::TestWithParam<Case<uint64_t>> {};
TEST_P(Atomic8, IsOneWqeWithItsEffect) { expect_case(GetParam(), kOld8); }
INSTANTIATE_TEST_SUITE_P(Every, Atomic8, ::testing::ValuesIn(kCases8),
                         [](const auto& tested) { return std::string(tested.param.name); });

TEST(Atomic, NegativeAndFloatingWordsKeepTheirBits) {
  DeviceRig rig;
  *rig.remote<int32_t>(1, 0x40) = -5;
  *rig.remote<float>(1, 0x44) = -1.5f;
  *rig.remote<double>(1, 0x48) = 2.25;
  const NicThread nics(rig);
  EXPECT_EQ(atomic_fetch_add(rig.context(), rig.local<int32_t>(0x40), -3, 1).value, -5);
  EXPECT_EQ(atomic_fetch(rig.context(), rig.local<int32_t>(0x40), 1).value, -8);
  EXPECT_EQ(atomic_swap(rig.context(), rig.local<float>(0x44), 7.5f, 1).value, -1.5f);
  EXPECT_EQ(atomic_fetch(rig.context(), rig.local<float>(0x44), 1).value, 7.5f);
  EXPECT_EQ(atomic_compare_swap(rig.context(), rig.local<double>(0x48), 2.25, 0.5, 1).value, 2.25);
  EXPECT_EQ(atomic_fetch(rig.context(), rig.local<double>(0x48), 1).value, 0.5);
}

TEST(Atomic, SumsWrapWithoutTouchingTheirNeighbours) {
  DeviceRig rig;
  *rig.remote<uint32_t>(1, 0x44) = ~0u;
  const NicThread nics(rig);
  EXPECT_EQ(atomic_fetch_inc(rig.context(), rig.local<uint32_t>(0x44), 1).value, ~0u);
  EXPECT_EQ(*rig.remote<uint32_t>(1, 0x40), 0u);
  EXPECT_EQ(*rig.remote<uint32_t>(1, 0x44), 0u);
  EXPECT_EQ(*rig.remote<uint32_t>(1, 0x48), 0u);
}

TEST(Atomic, WordsMustBeAligned) {
  for (const size_t off : {1u, 2u, 4u, 7u}) {
    DeviceRig rig;
    auto* const word = reinterpret_cast<uint64_t*>(rig.heap() + kWord + off);
    EXPECT_EQ(atomic_add(rig.context(), word, 1, 1), Status::kMisaligned);
    EXPECT_EQ(atomic_fetch(rig.context(), word, 1).status, Status::kMisaligned);
    EXPECT_EQ(rig.usage().address, reinterpret_cast<uint64_t>(word));
    EXPECT_EQ(rig.usage().bytes, 8u);
    EXPECT_EQ(rig.queue(1).reserved, 0u);
    EXPECT_EQ(quiet(rig.context()), Status::kMisaligned);
  }
}

TEST(Atomic, FourByteWordsNeedFourByteAlignment) {
  DeviceRig rig;
  EXPECT_EQ(atomic_inc(rig.context(), rig.local<uint32_t>(kWord + 4), 1), Status::kOk);
  auto* const crooked = reinterpret_cast<uint32_t*>(rig.heap() + kWord + 2);
  EXPECT_EQ(atomic_inc(rig.context(), crooked, 1), Status::kMisaligned);
}

TEST(Atomic, MistakesPostNothing) {
  DeviceRig rig;
  uint64_t here = 0;
  EXPECT_EQ(atomic_add(rig.context(), rig.local<uint64_t>(0), 1, -1), Status::kBadPe);
  EXPECT_EQ(atomic_add(rig.context(), &here, 1, 1), Status::kNotSymmetric);
  EXPECT_EQ(atomic_swap(rig.context(), &here, 1, 1).status, Status::kNotSymmetric);
  EXPECT_EQ(rig.queue(1).landing_ticket, 0u);
}

TEST(Atomic, AFailureIsNoAnswer) {
  DeviceRig rig;
  rig.nic(1).fail(0, mlx5::Syndrome::kRemoteAccess, 0);
  const NicThread nics(rig);
  EXPECT_EQ(atomic_fetch(rig.context(), rig.local<uint64_t>(0), 1).status, Status::kQueueError);
}

PEAL_KERNEL count_up(Context ctx, uint64_t* word) {
  if (thread_in_block() % 2 == 0) {
    (void)atomic_inc(ctx, word, 1);  // one block
  } else {
    (void)atomic_or(ctx, word, uint64_t{1} << 63, 1);  // two
  }
}

TEST(Atomic, LanesOfAWarpPostTogether) {
  DeviceRig rig;
  launch({.blocks = 1, .threads = 32}, count_up, rig.context(), rig.local<uint64_t>(kWord)).wait();
  rig.step_all();
  size_t completions = 0;
  for (const SeenWqe& wqe : rig.nic(1).seen()) completions += wqe.signalled() ? 1 : 0;
  EXPECT_EQ(completions, 2u) << "one a group";
  EXPECT_EQ(rig.complaints(), "");
  EXPECT_EQ(*rig.remote<uint64_t>(1, kWord), (uint64_t{1} << 63) + 16);
}

template <class T>
PEAL_KERNEL draw_tickets(Context ctx, T* word, T* drawn, uint32_t each) {
  const uint32_t me = block_in_grid() * threads_in_block() + thread_in_block();
  for (uint32_t i = 0; i < each; ++i) {
    const Fetched<T> got = atomic_fetch_inc(ctx, word, 1);
    drawn[me * each + i] = got.status == Status::kOk ? got.value : T{0};
  }
}

template <class T>
void expect_tickets_unique() {
  DeviceRig rig({.start = 0xffe0});
  *rig.remote<T>(1, kWord) = 1;
  constexpr uint32_t kLanes = 4 * 64;  // twice as many as landing cells
  constexpr uint32_t kEach = 6;
  std::vector<T> drawn(kLanes * kEach);
  {
    const NicThread nics(rig);
    launch({.blocks = 4, .threads = 64}, draw_tickets<T>, rig.context(), rig.local<T>(kWord),
           drawn.data(), kEach)
        .wait();
  }
  const std::set<T> unique(drawn.begin(), drawn.end());
  EXPECT_EQ(unique.size(), drawn.size());
  EXPECT_EQ(*unique.begin(), 1u);
  EXPECT_EQ(*unique.rbegin(), drawn.size());
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    for (uint32_t i = 1; i < kEach; ++i) {
      EXPECT_LT(drawn[lane * kEach + i - 1], drawn[lane * kEach + i]) << "lane " << lane;
    }
  }
  EXPECT_EQ(rig.complaints(), "");
}

TEST(Atomic, ManyLanesDrawDifferentTicketsOf4Bytes) { expect_tickets_unique<uint32_t>(); }
TEST(Atomic, ManyLanesDrawDifferentTicketsOf8Bytes) { expect_tickets_unique<uint64_t>(); }

TEST(Atomic, AMappedWordIsChangedDirectly) {
  DeviceRig rig;
  std::byte* direct[2] = {nullptr, rig.heap_of(1)};
  rig.windows().window[0].direct = direct;
  for (const Case<uint64_t>& tested : kCases8) {
    *rig.remote<uint64_t>(1, kWord) = kOld8;
    const Fetched<uint64_t> answer = tested.call(rig.context(), rig.local<uint64_t>(kWord));
    EXPECT_EQ(answer.status, Status::kOk) << tested.name;
    if (tested.fetches) {
      EXPECT_EQ(answer.value, kOld8) << tested.name;
    }
    EXPECT_EQ(*rig.remote<uint64_t>(1, kWord), tested.after) << tested.name;
  }
  for (const Case<uint32_t>& tested : kCases4) {
    *rig.remote<uint32_t>(1, kWord) = kOld4;
    const Fetched<uint32_t> answer = tested.call(rig.context(), rig.local<uint32_t>(kWord));
    if (tested.fetches) {
      EXPECT_EQ(answer.value, kOld4) << tested.name;
    }
    EXPECT_EQ(*rig.remote<uint32_t>(1, kWord), tested.after) << tested.name;
  }
  EXPECT_EQ(rig.queue(1).reserved, 0u);
}

}  // namespace
}  // namespace peal
