// SPDX-License-Identifier: Apache-2.0
//
// Collective calls by a block, peal's side: mpirun -np 2 collectives_peal. See collective_rows.h.
#include "peal/peal.h"
#include "perf/compare/collective_rows.h"

namespace {

using namespace peal;

struct Api {
  Context ctx;
  Team team;

  PEAL_DEVICE bool sync() const { return peal::sync(ctx, block, team) == Status::kOk; }
  PEAL_DEVICE bool call(const perf::CollectiveRow& row) const {
    switch (row.call) {
      case perf::Collective::kBroadcast:
        return broadcast(ctx, block, team, row.dst, row.src, row.count, 0) == Status::kOk;
      case perf::Collective::kGather:
        return all_gather(ctx, block, team, row.dst, row.src, row.count) == Status::kOk;
      case perf::Collective::kAllToAll:
        return all_to_all(ctx, block, team, row.dst, row.src, row.count) == Status::kOk;
      case perf::Collective::kAllReduce:
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

}  // namespace

int main() {
  return peal::run_main([] {
    Runtime runtime = start();
    Side side(runtime);
    return perf::print_rows(side, "peal");
  });
}
