// SPDX-License-Identifier: Apache-2.0
//
// barrier_all and sync_all, many times over: after each barrier every PE checks what all PEs had
// put.
#include "device/rma.h"
#include "device/sync.h"
#include "tests/support/job.h"

namespace peal::api_test {
namespace {

template <Reach R, class S>
PEAL_KERNEL meet(Verdict* verdict, BasicContext<R> ctx, S scope, uint64_t* slots, uint64_t first,
                 uint64_t rounds) {
  const int n = n_pes(ctx);
  for (uint64_t round = first; round < first + rounds; ++round) {
    if (scope.leader()) {
      for (int pe = 0; pe < n; ++pe) expect_ok(verdict, p(ctx, slots + my_pe(ctx), round, pe));
    }
    expect_ok(verdict, barrier_all(ctx, scope));
    for (int pe = static_cast<int>(scope.rank()); pe < n; pe += static_cast<int>(scope.size())) {
      expect_eq(verdict, slots[pe], round);
    }
    expect_ok(verdict, sync_all(ctx, scope));  // nobody puts before all have looked
  }
}

template <class C>
class SyncBy : public testing::Test {};
using Callers = testing::Types<Caller<Thread, Reach::kGpu, 1>, Caller<Thread, Reach::kBlock, 1>,
                               Caller<Thread, Reach::kLane, 1>, Caller<Warp, Reach::kGpu, 32>,
                               Caller<Warp, Reach::kBlock, 32>, Caller<Warp, Reach::kLane, 9>,
                               Caller<Block, Reach::kGpu, 96>, Caller<Block, Reach::kBlock, 64>,
                               Caller<Block, Reach::kLane, 40>>;
TYPED_TEST_SUITE(SyncBy, Callers);

TYPED_TEST(SyncBy, BarrierShowsWhatEveryPePut) {
  on_every_pe([](Runtime& pe) {
    using Scope = typename TypeParam::Scope;
    const auto context = pe.make_context<TypeParam::kReach>({.queues_per_peer = 2});
    Symmetric<uint64_t> slots(pe, static_cast<size_t>(pe.n_pes()));
    run_clean(pe, TypeParam::grid(), meet<TypeParam::kReach, Scope>, context.value(), Scope{},
              slots.data(), uint64_t{1}, uint64_t{200});
    pe.barrier();
  });
}

TEST(Sync, CountsOnFromKernelToKernel) {
  on_every_pe([](Runtime& pe) {
    Symmetric<uint64_t> slots(pe, static_cast<size_t>(pe.n_pes()));
    for (uint64_t round = 1; round <= 40; ++round) {
      run_clean(pe, {}, meet<Reach::kGpu, Thread>, pe.context(), thread, slots.data(), round,
                uint64_t{1});
    }
    pe.barrier();
  });
}

// Data from all blocks: they meet inside the grid, then one of them meets the other PEs.
PEAL_KERNEL meet_with_all_blocks(Verdict* verdict, Context ctx, uint64_t* slots, unsigned* arrived,
                                 unsigned* released, unsigned round) {
  const uint32_t blocks = blocks_in_grid();
  const size_t mine = static_cast<size_t>(my_pe(ctx)) * blocks + block_in_grid();
  for (int pe = 0; pe < n_pes(ctx); ++pe) {
    expect_ok(verdict, p(ctx, slots + mine, uint64_t{round}, pe));
  }
  __threadfence();
  atomicAdd(arrived, 1u);
  if (block_in_grid() == 0) {
    while (atomicAdd(arrived, 0u) != round * blocks) relax();
    __threadfence();
    expect_ok(verdict, barrier_all(ctx));
    __threadfence();
    atomicExch(released, round);
  }
  while (atomicAdd(released, 0u) != round) relax();
  __threadfence();
  for (size_t i = 0; i < blocks * static_cast<size_t>(n_pes(ctx)); ++i) {
    expect_eq(verdict, slots[i], round);
  }
}

TEST(Sync, BarrierByOneBlockCoversTheQueuesOfAll) {
  on_every_pe([](Runtime& pe) {
    constexpr unsigned kBlocks = 10;
    Symmetric<uint64_t> slots(pe, kBlocks * static_cast<size_t>(pe.n_pes()));
    unsigned arrived = 0;
    unsigned released = 0;
    for (unsigned round = 1; round <= 40; ++round) {
      run_clean(pe, {.blocks = kBlocks, .threads = 1}, meet_with_all_blocks, pe.context(),
                slots.data(), &arrived, &released, round);
      pe.barrier();
    }
  });
}

PEAL_KERNEL meet_on_both(Verdict* verdict, Context first, ExclusiveContext second, uint64_t* slots,
                         uint64_t rounds) {
  for (uint64_t round = 1; round <= rounds; ++round) {
    for (int pe = 0; pe < n_pes(first); ++pe) {
      expect_ok(verdict, p(first, slots + my_pe(first), round, pe));
    }
    expect_ok(verdict, barrier_all(first));
    for (int pe = 0; pe < n_pes(first); ++pe) expect_eq(verdict, slots[pe], round);
    expect_ok(verdict, barrier_all(second));
  }
}

TEST(Sync, ContextsHaveBarriersOfTheirOwn) {
  on_every_pe([](Runtime& pe) {
    const auto first = pe.make_context();
    const auto second = pe.make_context<Reach::kLane>();
    Symmetric<uint64_t> slots(pe, static_cast<size_t>(pe.n_pes()));
    run_clean(pe, {}, meet_on_both, first.value(), second.value(), slots.data(), uint64_t{100});
    pe.barrier();
  });
}

TEST(Sync, AContextInAReusedSlotStartsAfresh) {
  on_every_pe([](Runtime& pe) {
    Symmetric<uint64_t> slots(pe, static_cast<size_t>(pe.n_pes()));
    for (uint64_t round = 1; round <= 12; ++round) {
      const auto context = pe.make_context();
      run_clean(pe, {}, meet<Reach::kGpu, Thread>, context.value(), thread, slots.data(),
                round * 10, uint64_t{5});
      pe.barrier();
    }
  });
}

PEAL_KERNEL idle(Verdict* verdict, Context ctx) {
  expect_ok(verdict, quiet(ctx));
  expect_ok(verdict, fence(ctx));
  expect_ok(verdict, quiet(ctx, block));
  expect_ok(verdict, fence(ctx, block));
}

TEST(Sync, QuietAndFenceOfNothingReturn) {
  on_every_pe([](Runtime& pe) { run_clean(pe, {.blocks = 3, .threads = 48}, idle, pe.context()); });
}

}  // namespace
}  // namespace peal::api_test
