// SPDX-License-Identifier: Apache-2.0
//
// Collective calls against a serial reference, by every scope, in the team of all PEs and in halves
// of it. On CPUs (tests/mp) and on GPUs, over whatever transport the job uses.
//
//   mpirun -np 2 collective_calls
//
// Last line on PE 0: N passed, N failed.
#include "tests/gpu/score.h"
#include "tests/support/collective_cases.h"

namespace {

using namespace peal;
using namespace peal::api_test;

template <class S, class Op, class T>
void score_sizes(Score& score, Runtime& pe, const char* name, const Team& team) {
  score.add(name, run_sizes<S, Op, T>(pe, team, grid_for<S>()));
}

int body() {
  Runtime pe = start();
  Score score;
  for (const size_t workspace : {size_t{4096}, size_t{64} << 10}) {
    const TeamOptions options{.contexts = 1, .blocks = 4, .workspace = workspace};
    const Team all = pe.split_team(pe.world(), 0, 0, options);
    const Team half = pe.split_team(pe.world(), pe.my_pe() % 2, -pe.my_pe(), options);
    score_sizes<Thread, op::Sum, int32_t>(score, pe, "thread, int32", all);
    score_sizes<Block, op::Sum, BFloat16>(score, pe, "block, bfloat16", all);
    score_sizes<Block, op::Sum, BFloat16>(score, pe, "block, bfloat16, half", half);
    score_sizes<WholeGrid, op::Sum, float>(score, pe, "grid, float", all);
    score_sizes<WholeGrid, op::Sum, float>(score, pe, "grid, float, half", half);
    pe.barrier();
    pe.free_team(half);
    pe.free_team(all);
  }
  pe.check();
  return score.finish();
}

}  // namespace

int main() { return peal::run_main(body); }
