// SPDX-License-Identifier: Apache-2.0
//
// How many bytes a second kernels move, with --window operations of each agent in flight.
//
//   mpirun -np 2 bazel-bin/perf/bandwidth --op get --scope block --sizes 1K:1M
#include "perf/common/program.h"

int main(int argc, char** argv) {
  using namespace peal::perf;
  using Kernels = InAllScopes<Streams, PutCall, GetCall, PutCountedCall, CopyCall>;
  // Enough for the link between two GPUs; their messages of 1 MiB fit the default heap.
  constexpr uint32_t kBlocks = PEAL_CUDA ? 16 : 2, kThreads = PEAL_CUDA ? 512 : 32;
  return run_program<Kernels>(
      {.name = "bandwidth",
       .what = "Bytes per second between pairs of PEs, moved from inside a kernel.",
       .sizes = "1K:1M",
       .ops = {{"put", Op::kPut, CallWay::kStream},
               {"get", Op::kGet, CallWay::kStream},
               {"put_signal", Op::kPutSignal, CallWay::kStream},
               {"memcpy", Op::kCopy, CallWay::kStream}},
       .defaults =
           {.scope = ScopeKind::kBlock, .blocks = kBlocks, .threads = kThreads, .warmup = 8},
       .metric = Metric::kBandwidth,
       .effort = {.operations = 1 << 20, .bytes = 256 << 20}},
      argc, argv);
}
