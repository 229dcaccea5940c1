// SPDX-License-Identifier: Apache-2.0
//
// Collective calls that the host makes, on a stream and at once, against a serial reference: every
// call, type and operation, in teams of several shapes.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/collective_cases.h"
#include "tests/support/job.h"

namespace peal::api_test {
namespace {

/// One case after the other on one stream; what went wrong first, or nothing.
template <class Op, class T>
std::string run_calls(Runtime& pe, const Team& team, bool reductions_only) {
  const size_t limit = brief_count<T>(team);
  const size_t longest = 3 * limit + 7;
  CaseMemory<T> memory(pe, team, team.grid_workspace / sizeof(T));  // alike in all teams
  Stream stream;
  const StreamCalls on = pe.on(stream);
  std::string wrong;
  for (const size_t count : {size_t{1}, size_t{37}, limit, limit + 1, longest}) {
    for (const Call which : kCalls) {
      if (reductions_only && which < Call::kAllReduce) continue;  // moving knows no operation
      const Case c{which, count, false, 0, static_cast<int>(count) % team.size};
      const std::string one = run_case_by<Op>(memory, c, [&](T* dst, T* src) {
        make_call<Op>(on, team, c, dst, src);
        stream.synchronize();
        return pe.status();
      });
      if (wrong.empty()) wrong = one;
    }
  }
  pe.barrier();
  return wrong;
}

template <class T>
class HostCollectives : public testing::Test {};
using Types = testing::Types<int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t,
                             uint64_t, Half, BFloat16, float, double>;
TYPED_TEST_SUITE(HostCollectives, Types);

template <class T, class... Ops>
void run_operations(Runtime& pe, const Team& team) {
  bool first = true;
  const auto one = [&]<class Op>(Op) {
    EXPECT_EQ((run_calls<Op, T>(pe, team, !first)), "");
    first = false;
  };
  (one(Ops{}), ...);
}

template <class T>
void run_type(Runtime& pe, const Team& team) {
  if constexpr (std::is_integral_v<T>) {
    run_operations<T, op::Sum, op::Product, op::Min, op::Max, op::And, op::Or, op::Xor>(pe, team);
  } else {
    run_operations<T, op::Sum, op::Product, op::Min, op::Max>(pe, team);
  }
}

TYPED_TEST(HostCollectives, OnAStream) {
  on_every_pe([](Runtime& pe) {
    const TeamOptions small{
        .contexts = 1, .blocks = 2, .workspace = 4096, .grid_workspace = 32 << 10};
    const Team all = pe.split_team(pe.world(), 0, 0, small);
    run_type<TypeParam>(pe, all);
    const Team some = pe.split_team(pe.world(), pe.my_pe() % 2, -pe.my_pe(), small);
    run_type<TypeParam>(pe, some);
    pe.check();
    pe.barrier();
    pe.free_team(some);
    pe.free_team(all);
  });
}

TEST(HostCollectivesAtOnce, OfTheWorld) {
  on_every_pe([](Runtime& pe) {
    Symmetric<int> data(pe, 400);
    const auto n = static_cast<size_t>(pe.n_pes());
    const HostCalls host = pe.host();
    for (size_t i = 0; i < 100; ++i) data[i] = pe.my_pe() + static_cast<int>(i);
    host.barrier(pe.world());
    host.all_reduce(pe.world(), data.data() + 100, data.data(), 100, op::max);
    EXPECT_EQ(data[100 + 7], static_cast<int>(n) - 1 + 7);
    host.sync(pe.world());
    host.all_gather(pe.world(), data.data() + 200, data.data(), 3);
    EXPECT_EQ(data[200 + 3 * (n - 1) + 2], static_cast<int>(n) - 1 + 2);
  });
}

/// Member i sends (i + j + 1) * `unit` elements to member j, from element 16 * `unit` * j, to
/// element 16 * `unit` * i.
void exchange_blocks(Runtime& pe, size_t unit) {
  const auto n = static_cast<size_t>(pe.n_pes());
  const auto me = static_cast<size_t>(pe.my_pe());
  const size_t room = 16 * unit;
  Symmetric<uint16_t> dst(pe, room * n);
  Symmetric<uint16_t> src(pe, room * n);
  Symmetric<int64_t> lists(pe, 2 * n);
  for (size_t i = 0; i < n; ++i) {
    lists[i] = static_cast<int64_t>((me + i + 1) * unit);
    lists[n + i] = static_cast<int64_t>(room * i);
    for (size_t k = 0; k < room; ++k) {
      src[room * i + k] = static_cast<uint16_t>(100 * me + 10 * i + k);
    }
  }
  pe.barrier();
  const Blocks<int64_t> blocks{lists.data(), lists.data() + n};
  pe.host().all_to_all_v(pe.world(), dst.data(), blocks, src.data(), blocks);
  for (size_t i = 0; i < n; ++i) {
    for (size_t k = 0; k < room; ++k) {
      const size_t wanted = k < (me + i + 1) * unit ? 100 * i + 10 * me + k : 0;
      ASSERT_EQ(dst[room * i + k], static_cast<uint16_t>(wanted))
          << "from " << i << ", element " << k;
    }
  }
  pe.barrier();
}

TEST(HostCollectivesAtOnce, BlocksOfDifferentSizes) {
  on_every_pe([](Runtime& pe) { exchange_blocks(pe, 1); });
}
// Of several pieces, by several blocks of a grid.
TEST(HostCollectivesAtOnce, LongBlocksOfDifferentSizes) {
  on_every_pe([](Runtime& pe) { exchange_blocks(pe, 5000); });
}

}  // namespace
}  // namespace peal::api_test
