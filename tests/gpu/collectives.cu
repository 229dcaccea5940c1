// SPDX-License-Identifier: Apache-2.0
//
// Collective calls against a serial reference, by every scope, in the team of all PEs and in halves
// of it. On CPUs (tests/mp) and on GPUs, over whatever transport the job uses.
//
//   mpirun -np 2 collectives
//
// Last line on PE 0: N passed, N failed.
#include <cstdio>

#include "tests/support/collective_cases.h"

namespace {

using namespace peal;
using namespace peal::api_test;

class Score {
 public:
  explicit Score(Runtime& pe) : pe_(pe) {}

  template <class S, class Op, class T>
  void run(const char* name, const Team& team) {
    const std::string wrong = run_sizes<S, Op, T>(pe_, team, grid_for<S>());
    if (!wrong.empty()) std::printf("FAILED %s: %s\n", name, wrong.c_str());
    ++(wrong.empty() ? passed_ : failed_);
  }

  int finish() {
    std::printf("%d passed, %d failed\n", passed_, failed_);
    return failed_ == 0 ? 0 : 1;
  }

 private:
  Runtime& pe_;
  int passed_ = 0;
  int failed_ = 0;
};

int body() {
  Runtime pe = start();
  Score score(pe);
  for (const size_t workspace : {size_t{4096}, size_t{64} << 10}) {
    const TeamOptions options{.contexts = 1, .blocks = 4, .workspace = workspace};
    const Team all = pe.split_team(pe.world(), 0, 0, options);
    const Team half = pe.split_team(pe.world(), pe.my_pe() % 2, -pe.my_pe(), options);
    score.run<Thread, op::Sum, int32_t>("thread, int32", all);
    score.run<Block, op::Sum, BFloat16>("block, bfloat16", all);
    score.run<Block, op::Sum, BFloat16>("block, bfloat16, half", half);
    score.run<WholeGrid, op::Sum, float>("grid, float", all);
    score.run<WholeGrid, op::Sum, float>("grid, float, half", half);
    pe.barrier();
    pe.free_team(half);
    pe.free_team(all);
  }
  pe.check();
  return score.finish();
}

}  // namespace

int main() { return peal::run_main(body); }
