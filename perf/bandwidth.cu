// SPDX-License-Identifier: Apache-2.0
//
// How many bytes a second kernels move, with --window operations of each agent in flight.
//
//   mpirun -np 2 bazel-bin/perf/bandwidth --op get --scope block --sizes 1K:1M
#include "peal/peal.h"
#include "perf/common/stream.h"

int main(int argc, char** argv) {
  return peal::run_main([&] {
    using namespace peal::perf;
    const Program program{
        .name = "bandwidth",
        .what = "Bytes per second between pairs of PEs, moved from inside a kernel.",
        .sizes = "1K:1M",
        .ops = {Op::kPut, Op::kGet, Op::kPutSignal, Op::kMemcpy},
        .defaults = {.scope = ScopeKind::kBlock, .blocks = 2, .threads = 32, .warmup = 8}};
    const Effort effort{.operations = 1 << 16, .bytes = 256 << 20};
    return run_stream(program, Metric::kBandwidth, effort, parse(program, argc, argv));
  });
}
