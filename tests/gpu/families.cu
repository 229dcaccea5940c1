// SPDX-License-Identifier: Apache-2.0
//
// Batches, tiles, atomics that do not wait, that acquire and release, and of reals, comparisons
// with many values: the cases of tests/mp on GPUs, over whatever transport the job uses.
//
//   mpirun -np 2 families
//
// Last line on PE 0: N passed, N failed.
#include "tests/gpu/score.h"
#include "tests/support/family_cases.h"
#include "tests/support/ordered_cases.h"

namespace {

using namespace peal;
using namespace peal::api_test;

template <Reach R, class S>
void by_scope(Runtime& pe, Score& score, const char* name, unsigned threads) {
  const auto ctx = pe.make_context<R>({.depth = 128});
  const Grid grid{.blocks = 1, .threads = threads};
  score.add(name, run_tiles<uint32_t, S>(pe, ctx.value(), grid));
  score.add(name, run_tiles<Wide, S>(pe, ctx.value(), grid));
  score.add(name, run_batches<S>(pe, ctx.value(), grid));
  score.add(name, run_mail<S>(pe, ctx.value(), grid));
}

int body() {
  Runtime pe = start();
  Score score;
  by_scope<Reach::kGpu, Thread>(pe, score, "thread", 1);
  by_scope<Reach::kGpu, Block>(pe, score, "block", 96);
  by_scope<Reach::kLane, Warp>(pe, score, "warp, exclusive", 32);
  score.add("combine float", run_combine<float>(pe));
  score.add("combine double", run_combine<double>(pe));
  score.add("combine int32", run_combine<int32_t>(pe));
  score.add("combine uint64", run_combine<uint64_t>(pe));
  score.add("fetch later uint32", run_fetch_later<uint32_t>(pe));
  score.add("fetch later int64", run_fetch_later<int64_t>(pe));
  score.add("values", run_values<uint64_t>(pe));
  score.add("ordered uint32", run_ordered<uint32_t>(pe));
  score.add("ordered int64", run_ordered<int64_t>(pe));
  score.add("ordered float", run_ordered<float>(pe));
  score.add("ordered double", run_ordered<double>(pe));
  score.add("locked record", run_locked(pe, pe.context(), 3));
  score.add("stolen tasks", run_stolen(pe, pe.context()));
  const auto owned = pe.make_context<Reach::kLane>({.depth = 128});
  score.add("locked record, exclusive", run_locked(pe, owned.value(), 1));
  score.add("stolen tasks, exclusive", run_stolen(pe, owned.value()));
  pe.check();
  return score.finish();
}

}  // namespace

int main() { return peal::run_main(body); }
