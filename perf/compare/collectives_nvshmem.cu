// SPDX-License-Identifier: Apache-2.0
//
// Collective calls by a block, NVSHMEM's side. See collective_rows.h; built by build.sh.
#include <nvshmem.h>
#include <nvshmemx.h>

#include "perf/compare/collective_rows.h"

namespace {

using namespace peal;

struct Api {
  PEAL_DEVICE bool sync() const {
    nvshmemx_team_sync_block(NVSHMEM_TEAM_WORLD);
    return true;
  }
  PEAL_DEVICE bool call(const perf::CollectiveRow& row) const {
    switch (row.call) {
      case perf::TimedCollective::kBroadcast:
        return nvshmemx_float_broadcast_block(NVSHMEM_TEAM_WORLD, row.dst, row.src, row.count, 0) ==
               0;
      case perf::TimedCollective::kGather:
        return nvshmemx_float_fcollect_block(NVSHMEM_TEAM_WORLD, row.dst, row.src, row.count) == 0;
      case perf::TimedCollective::kAllToAll:
        return nvshmemx_float_alltoall_block(NVSHMEM_TEAM_WORLD, row.dst, row.src, row.count) == 0;
      case perf::TimedCollective::kAllReduce:
        return nvshmemx_float_sum_reduce_block(NVSHMEM_TEAM_WORLD, row.dst, row.src, row.count) ==
               0;
    }
    return false;
  }
};

class Side {
 public:
  int pe() const { return nvshmem_my_pe(); }
  int n_pes() const { return nvshmem_n_pes(); }
  Api api() const { return {}; }
  void barrier() { nvshmem_barrier_all(); }
  void* allocate(size_t bytes) { return nvshmem_malloc(bytes); }
  void copy_in(void* to, const void* from, size_t bytes) {
    (void)cudaMemcpy(to, from, bytes, cudaMemcpyDefault);
  }
  void copy_out(void* to, const void* from, size_t bytes) {
    (void)cudaMemcpy(to, from, bytes, cudaMemcpyDefault);
  }
};

}  // namespace

int main() {
  nvshmem_init();
  int failed = cudaSetDevice(nvshmem_team_my_pe(NVSHMEMX_TEAM_NODE)) == cudaSuccess ? 0 : 1;
  Side side;
  if (failed == 0) failed = perf::print_rows(side, "nvshmem");
  nvshmem_finalize();
  return failed;
}
