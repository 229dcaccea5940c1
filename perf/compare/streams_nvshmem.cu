// SPDX-License-Identifier: Apache-2.0
//
// Calls on a stream, NVSHMEM's side, by its public interface. See stream_rows.cuh and build.sh.
#include <nvshmem.h>
#include <nvshmemx.h>

#include "perf/compare/stream_rows.cuh"

namespace {

using peal::perf::StreamCall;
using peal::perf::StreamRow;

class Side {
 public:
  const char* name() const { return "nvshmem"; }
  int pe() const { return nvshmem_my_pe(); }
  int n_pes() const { return nvshmem_n_pes(); }
  bool has(StreamCall, bool bfloat16) const { return !bfloat16; }
  void barrier() { nvshmem_barrier_all(); }
  void call(const StreamRow& row) {
    auto* const dst = static_cast<float*>(row.dst);
    auto* const src = static_cast<float*>(row.src);
    switch (row.call) {
      case StreamCall::kAllReduce:
        nvshmemx_float_sum_reduce_on_stream(NVSHMEM_TEAM_WORLD, dst, src, row.count, row.stream);
        break;
      case StreamCall::kGather:
        nvshmemx_float_fcollect_on_stream(NVSHMEM_TEAM_WORLD, dst, src, row.count, row.stream);
        break;
      case StreamCall::kAllToAll:
        nvshmemx_float_alltoall_on_stream(NVSHMEM_TEAM_WORLD, dst, src, row.count, row.stream);
        break;
      case StreamCall::kReduceScatter:
        nvshmemx_float_sum_reducescatter_on_stream(NVSHMEM_TEAM_WORLD, dst, src, row.count,
                                                   row.stream);
        break;
      case StreamCall::kBroadcast:
        nvshmemx_float_broadcast_on_stream(NVSHMEM_TEAM_WORLD, dst, src, row.count, 0, row.stream);
        break;
    }
  }
};

}  // namespace

int main() {
  nvshmem_init();
  cudaSetDevice(nvshmem_team_my_pe(NVSHMEMX_TEAM_NODE));
  Side side;
  void* const dst = nvshmem_calloc(1, peal::perf::largest_bytes());
  void* const src = nvshmem_calloc(1, peal::perf::largest_bytes());
  peal::perf::print_stream_rows(side, dst, src);
  nvshmem_free(src);
  nvshmem_free(dst);
  nvshmem_finalize();
  return 0;
}
