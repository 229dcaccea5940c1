// SPDX-License-Identifier: Apache-2.0
//
// Collective calls by a block, peal's side: mpirun -np 2 collectives_peal. See collective_rows.h.
// Before them sync of a team of all PEs beside barrier_all, in turn.
#include "peal/peal.h"
#include "perf/common/fixed_heap.h"
#include "perf/compare/collective_rows.h"

namespace {

using namespace peal;

struct Api {
  Context ctx;
  Team team;

  PEAL_DEVICE bool sync() const { return peal::sync(ctx, block, team) == Status::kOk; }
  PEAL_DEVICE bool call(const perf::CollectiveRow& row) const {
    switch (row.call) {
      case perf::TimedCollective::kBroadcast:
        return broadcast(ctx, block, team, row.dst, row.src, row.count, 0) == Status::kOk;
      case perf::TimedCollective::kGather:
        return all_gather(ctx, block, team, row.dst, row.src, row.count) == Status::kOk;
      case perf::TimedCollective::kAllToAll:
        return all_to_all(ctx, block, team, row.dst, row.src, row.count) == Status::kOk;
      case perf::TimedCollective::kAllReduce:
        return all_reduce(ctx, block, team, row.dst, row.src, row.count, op::sum) == Status::kOk;
    }
    return false;
  }
};

class Side {
 public:
  explicit Side(Runtime& runtime) : runtime_(runtime) {}
  int pe() const { return runtime_.my_pe(); }
  int n_pes() const { return runtime_.n_pes(); }
  Api api() const { return {runtime_.context(), runtime_.world()}; }
  void barrier() { runtime_.barrier(); }
  void* allocate(size_t bytes) { return runtime_.malloc(bytes); }
  void copy_in(void* to, const void* from, size_t bytes) { runtime_.copy_in(to, from, bytes); }
  void copy_out(void* to, const void* from, size_t bytes) { runtime_.copy_out(to, from, bytes); }

 private:
  Runtime& runtime_;
};

/// By a block: `rounds` calls of sync, or of barrier_all.
PEAL_KERNEL PEAL_MAX_THREADS(512)
    time_meetings(Context ctx, Team team, bool by_team, uint32_t rounds, uint64_t* ns) {
  bool good = true;
  uint64_t begin = 0;
  for (uint32_t i = 0; i < 2 * rounds; ++i) {
    if (i == rounds) begin = now_ns();
    const Status met = by_team ? sync(ctx, block, team) : barrier_all(ctx, block);
    good = good && met == Status::kOk;
  }
  if (block.leader()) *ns = good ? now_ns() - begin : 0;
}

int print_meetings(Runtime& pe) {
  constexpr uint32_t kRounds = 1000;
  const Team team = pe.split_team(pe.world(), 0);
  auto* const ns = pe.allocate<uint64_t>(1);
  int failed = 0;
  for (int turn = 0; turn < 6; ++turn) {
    const bool by_team = turn % 2 == 0;
    launch({.blocks = 1, .threads = 512}, time_meetings, pe.context(), team, by_team, kRounds, ns)
        .wait();
    uint64_t told = 0;
    pe.copy_out(&told, ns, sizeof(told));
    failed += told == 0;
    pe.barrier();
    if (pe.my_pe() != 0) continue;
    std::printf(
        "{\"side\": \"peal\", \"op\": \"%s\", \"bytes\": 0, \"pes\": %d, \"us\": %.3f, "
        "\"errors\": %d}\n",
        by_team ? "sync" : "barrier_all", pe.n_pes(), static_cast<double>(told) / kRounds / 1e3,
        told == 0);
  }
  pe.free(ns);
  pe.free_team(team);
  return failed;
}

}  // namespace

int main() {
  return peal::run_main([] {
    // 64 MiB, and the rows' two buffers of eight PEs; for more set PEAL_HEAP_SIZE.
    Runtime runtime = start(perf::fixed_heap(uint64_t{1088} << 20));
    const int failed = print_meetings(runtime);
    Side side(runtime);
    return perf::print_rows(side, "peal") + failed;
  });
}
