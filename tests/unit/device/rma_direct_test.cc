// SPDX-License-Identifier: Apache-2.0
//
// Transfers to a peer whose heap is mapped: every size, alignment and scope moves every byte and no
// other, whichever lanes have a part in it; values of every size up to 8 bytes.
#include <array>
#include <cstring>

#include "gtest/gtest.h"
#include "tests/support/device_rig.h"

namespace peal {
namespace {

using testing::DeviceRig;

constexpr size_t kThere = 4096;   // where the peer's copy is written, or the own one by get
constexpr size_t kHere = 16384;   // the source
constexpr size_t kExtent = 4096;  // looked at around the message

/// Two PEs, PE 1's heap mapped.
class Mapped {
 public:
  Mapped() : direct_{nullptr, rig_.heap_of(1)} {
    rig_.windows().window[0].direct = direct_.data();
    for (size_t i = 0; i < kExtent; ++i) {
      rig_.heap()[kHere + i] = static_cast<std::byte>(i * 7 + 1);
      rig_.heap_of(1)[kHere + i] = static_cast<std::byte>(i * 5 + 3);
    }
  }
  DeviceRig& rig() { return rig_; }

 private:
  DeviceRig rig_;
  std::array<std::byte*, 2> direct_;
};

struct Message {
  size_t to;
  size_t from;
  size_t bytes;
};

template <class S>
PEAL_KERNEL put_one(Context ctx, S scope, std::byte* heap, Message m) {
  if (thread_in_block() >= scope.size()) return;
  (void)put(ctx, scope, heap + kThere + m.to, heap + kHere + m.from, m.bytes, 1);
}
template <class S>
PEAL_KERNEL get_one(Context ctx, S scope, std::byte* heap, Message m) {
  if (thread_in_block() >= scope.size()) return;
  (void)get(ctx, scope, heap + kThere + m.to, heap + kHere + m.from, m.bytes, 1);
}

/// Bytes that are not what they should be after `m` went from `source` to `target`.
size_t wrong_bytes(const std::byte* target, const std::byte* source, const Message& m) {
  size_t wrong = 0;
  for (size_t i = 0; i < kExtent; ++i) {
    const bool inside = i >= m.to && i < m.to + m.bytes;
    const std::byte wanted = inside ? source[kHere + m.from + i - m.to] : std::byte{0};
    if (target[kThere + i] != wanted) ++wrong;
  }
  return wrong;
}

template <class S>
void sweep(S scope, uint32_t threads) {
  Mapped mapped;
  DeviceRig& rig = mapped.rig();
  const size_t sizes[] = {1,   4,   8,   12,  16,  24,   33,   64,  68,
                          132, 264, 500, 512, 516, 1028, 2056, 3001};
  const size_t skews[][2] = {{0, 0}, {8, 8}, {4, 4}, {4, 8}, {2, 2}, {1, 1}, {3, 10}, {0, 8}};
  for (const size_t bytes : sizes) {
    for (const auto& skew : skews) {
      const Message m{64 + skew[0], skew[1], bytes};
      std::memset(rig.heap_of(1) + kThere, 0, kExtent);
      launch({.blocks = 1, .threads = threads}, put_one<S>, rig.context(), scope, rig.heap(), m)
          .wait();
      ASSERT_EQ(wrong_bytes(rig.heap_of(1), rig.heap(), m), 0u)
          << "put of " << bytes << " to " << skew[0] << " from " << skew[1] << " by " << threads;
      std::memset(rig.heap() + kThere, 0, kExtent);
      launch({.blocks = 1, .threads = threads}, get_one<S>, rig.context(), scope, rig.heap(), m)
          .wait();
      ASSERT_EQ(wrong_bytes(rig.heap(), rig.heap_of(1), m), 0u)
          << "get of " << bytes << " to " << skew[0] << " from " << skew[1] << " by " << threads;
    }
  }
  EXPECT_EQ(rig.step_all(), 0u) << "the NIC had no part in it";
}

TEST(Direct, AThreadMovesEveryByte) { sweep(thread, 1); }
TEST(Direct, AWarpMovesEveryByte) { sweep(warp, 32); }
TEST(Direct, ABlockMovesEveryByteHoweverManyWarpsItHas) {
  for (const uint32_t threads : {32u, 33u, 64u, 256u}) sweep(block, threads);
}

template <size_t kBytes>
struct Value {
  unsigned char byte[kBytes];
};

template <size_t kBytes>
void value_goes_to_and_fro() {
  Mapped mapped;
  DeviceRig& rig = mapped.rig();
  for (const size_t skew : {0, 1, 8}) {
    Value<kBytes> value;
    for (size_t i = 0; i < kBytes; ++i) value.byte[i] = static_cast<unsigned char>(0x91 + i);
    auto* const there = reinterpret_cast<Value<kBytes>*>(rig.heap() + kThere + skew);
    std::memset(rig.heap_of(1) + kThere, 0, 32);
    ASSERT_EQ(p(rig.context(), there, value, 1), Status::kOk);
    std::byte wanted[32] = {};
    std::memcpy(wanted + skew, &value, kBytes);
    EXPECT_EQ(std::memcmp(rig.heap_of(1) + kThere, wanted, 32), 0) << kBytes << " at " << skew;
    const Fetched<Value<kBytes>> back = g(rig.context(), there, 1);
    ASSERT_EQ(back.status, Status::kOk);
    EXPECT_EQ(std::memcmp(&back.value, &value, kBytes), 0) << kBytes << " at " << skew;
  }
}

TEST(Direct, ValuesOfUpTo8BytesArriveWhole) {
  value_goes_to_and_fro<1>();
  value_goes_to_and_fro<2>();
  value_goes_to_and_fro<3>();
  value_goes_to_and_fro<4>();
  value_goes_to_and_fro<5>();
  value_goes_to_and_fro<6>();
  value_goes_to_and_fro<7>();
  value_goes_to_and_fro<8>();
}

}  // namespace
}  // namespace peal
