// SPDX-License-Identifier: Apache-2.0
//
// Collective calls by each scope, in teams of several shapes, in sizes around every threshold.
#include <gtest/gtest.h>

#include "tests/support/collective_cases.h"

namespace peal::api_test {
namespace {

const TeamOptions kSmall{.contexts = 1, .blocks = 4, .workspace = 4096};

template <class S, class Op, class T>
void run_sizes(Runtime& pe, const Team& team, const Grid& grid) {
  // One unit, parts of units, the longest short messages, long ones in lines and with a rest.
  const size_t limit = team.workspace / (4 * static_cast<size_t>(team.size)) / sizeof(T);
  CaseMemory<T> memory(pe, team, kSmall.workspace / sizeof(T));
  for (const size_t count : {size_t{1}, size_t{5}, limit, limit + 1, 3 * limit + 7}) {
    for (const Call call : kCalls) {
      for (const bool in_place : {false, true}) {
        const int root = static_cast<int>(count) % team.size;
        run_case<S, Op>(memory, grid, Case{call, count, in_place, count % 3, root});
      }
    }
  }
}

template <class S>
class CollectivesBy : public testing::Test {};
using Scopes = testing::Types<Thread, Warp, Block, WholeGrid>;
TYPED_TEST_SUITE(CollectivesBy, Scopes);

template <class S>
Grid grid_of() {
  if (std::is_same_v<S, Thread>) return {.blocks = 1, .threads = 1};
  if (std::is_same_v<S, Warp>) return {.blocks = 1, .threads = 32};
  if (std::is_same_v<S, Block>) return {.blocks = 1, .threads = 96};
  return {.blocks = 3, .threads = 64};
}

TYPED_TEST(CollectivesBy, AllPes) {
  on_every_pe([](Runtime& pe) {
    const Team team = pe.split_team(pe.world(), 0, 0, kSmall);
    run_sizes<TypeParam, op::Sum, int32_t>(pe, team, grid_of<TypeParam>());
    pe.barrier();
    pe.free_team(team);
  });
}

TYPED_TEST(CollectivesBy, OddAndEvenPes) {
  on_every_pe([](Runtime& pe) {
    const Team team = pe.split_team(pe.world(), pe.my_pe() % 2, -pe.my_pe(), kSmall);
    run_sizes<TypeParam, op::Max, double>(pe, team, grid_of<TypeParam>());
    pe.barrier();
    pe.free_team(team);
  });
}

}  // namespace
}  // namespace peal::api_test

int main(int argc, char** argv) { return peal::api_test::run_tests(argc, argv); }
