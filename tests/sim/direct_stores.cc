// SPDX-License-Identifier: Apache-2.0
//
// What lanes store by themselves where no other PE's memory is mapped: how far the fence of quiet
// reaches (ContextFields::stores_stay).
#include "tests/sim/kernels.h"

namespace peal::sim {
namespace {

constexpr uint32_t kSlotWords = 5;
constexpr uint32_t kRounds = 2;

}  // namespace

/// Lanes store into windows of the host's memory, which a fence of the GPU does not reach; once
/// they have asked for quiet and said so the peer's lanes get it from there.
void off_gpu_stores(simt::Simulation& sim) {
  constexpr uint32_t kLanes = 4;
  JobOptions options = any_options(sim.random());
  options.fence = NicFence::kGpu;  // nor does that of the queue
  Job job(sim, options);
  std::byte* const memory[2] = {job.add_host_window(0, 512), job.add_host_window(1, 512)};
  for (int pe = 0; pe < 2; ++pe) {
    job.launch(pe, {1, kLanes}, [&, pe] {
      const Context ctx = job.context<Reach::kGpu>(pe);
      const uint32_t lane = thread_in_block();
      auto* const mine = reinterpret_cast<uint64_t*>(memory[pe]) + lane * kSlotWords;
      auto* const copy = job.at<uint64_t>(pe, kTarget, lane * kSlotWords);
      auto* const flag = job.at<uint64_t>(pe, kFlags);
      for (uint32_t round = 1; round <= kRounds; ++round) {
        write_words(mine, kSlotWords, pe, lane, round);
        must(quiet(ctx, block), "quiet");
        if (lane == 0) must(p(ctx, flag, uint64_t{round}, 1 - pe), "p");
        must(wait_until(ctx, flag, Compare::kGe, uint64_t{round}), "the peer's word");
        must(get(ctx, copy, mine, kSlotWords, 1 - pe), "get");
        check_words(copy, kSlotWords, 1 - pe, lane, round);
        must(barrier_all(ctx, block), "barrier_all");
      }
    });
  }
  run_clean(sim, job);
}

/// A block stores into its own heap, asks for quiet and tells the other block of its GPU by a store
/// that orders nothing itself.
void home_stores(simt::Simulation& sim) {
  Job job(sim, any_options(sim.random()));
  job.launch(0, {2, 1}, [&job] {
    const Context ctx = job.context<Reach::kGpu>(0);
    auto* const data = job.at<uint64_t>(0, kSource);
    auto* const copy = job.at<uint64_t>(0, kTarget);
    auto* const flag = job.at<uint64_t>(0, kFlags);
    for (uint32_t round = 1; round <= kRounds; ++round) {
      const auto told = [&](uint32_t word) {
        return detail::spin(
            ctx, [&] { return load_acquire<Reach::kGpu>(flag + word) == uint64_t{round}; });
      };
      if (block_in_grid() == 0) {
        write_words(data, kSlotWords, 0, 0, round);
        must(get_nbi(ctx, copy, data, kSlotWords, 0).status, "get_nbi");
        must(quiet(ctx), "quiet");
        store_relaxed<Reach::kGpu>(flag, uint64_t{round});
        must(told(1), "the reader's answer");
      } else {
        must(told(0), "the writer's word");
        check_words(data, kSlotWords, 0, 0, round);
        check_words(copy, kSlotWords, 0, 0, round);
        store_release<Reach::kGpu>(flag + 1, uint64_t{round});
      }
    }
  });
  run_clean(sim, job);
}

/// A program puts to its own PE, in memory of the host that it has not registered, asks for quiet
/// and tells the host by a store that orders nothing itself.
void own_memory_stores(simt::Simulation& sim) {
  Job job(sim, any_options(sim.random()));
  auto* const memory = static_cast<uint64_t*>(sim.memory().allocate(512, "memory of the host"));
  sim.memory().set_host_memory(memory, 512);
  uint64_t* const flag = memory + 32;
  job.fields(0).state->own_memory = 1;
  job.launch(0, {1, 1}, [&] {
    const Context ctx = job.context<Reach::kGpu>(0);
    auto* const source = job.at<uint64_t>(0, kSource);
    write_words(source, kSlotWords, 0, 0, 1);
    must(put(ctx, memory, source, kSlotWords, 0), "put");
    must(quiet(ctx), "quiet");
    store_relaxed<Reach::kSystem>(flag, uint64_t{1});
  });
  job.launch_host(0, [&] {
    while (load_acquire<Reach::kSystem>(flag) != 1) simt::yield();
    check_words(memory, kSlotWords, 0, 0, 1);
  });
  run_clean(sim, job);
}

}  // namespace peal::sim
