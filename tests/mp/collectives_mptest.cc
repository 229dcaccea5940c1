// SPDX-License-Identifier: Apache-2.0
//
// Collective calls by each scope, in teams of several shapes, of every type with every operation.
#include <gtest/gtest.h>

#include "tests/support/collective_cases.h"
#include "tests/support/job.h"

namespace peal::api_test {
namespace {

const TeamOptions kSmall{.contexts = 1, .blocks = 4, .workspace = 4096};

template <class S>
class CollectivesBy : public testing::Test {};
using Scopes = testing::Types<Thread, Warp, Block, WholeGrid>;
TYPED_TEST_SUITE(CollectivesBy, Scopes);

template <class S, class Op, class T>
void run_in(Runtime& pe, const Team& team) {
  EXPECT_EQ((run_sizes<S, Op, T>(pe, team, grid_for<S>())), "");
  pe.check();
  pe.free_team(team);
}

TYPED_TEST(CollectivesBy, AllPes) {
  on_every_pe([](Runtime& pe) {
    run_in<TypeParam, op::Sum, int32_t>(pe, pe.split_team(pe.world(), 0, 0, kSmall));
  });
}

TYPED_TEST(CollectivesBy, OddAndEvenPes) {
  on_every_pe([](Runtime& pe) {
    run_in<TypeParam, op::Max, double>(
        pe, pe.split_team(pe.world(), pe.my_pe() % 2, -pe.my_pe(), kSmall));
  });
}

// A team whose PEs are not evenly spaced, beside others of one.
TYPED_TEST(CollectivesBy, AllButOne) {
  on_every_pe([](Runtime& pe) {
    const int color = pe.my_pe() == 1 ? 1 : 0;
    run_in<TypeParam, op::Min, Half>(pe, pe.split_team(pe.world(), color, 0, kSmall));
  });
}

}  // namespace
}  // namespace peal::api_test

int main(int argc, char** argv) { return peal::api_test::run_tests(argc, argv); }
