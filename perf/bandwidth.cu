// SPDX-License-Identifier: Apache-2.0
//
// How many bytes a second kernels move, with --window operations of each agent in flight.
//
//   mpirun -np 2 bazel-bin/perf/bandwidth --op get --scope block --sizes 1K:1M
#include "peal/peal.h"
#include "perf/common/stream.h"

namespace {

#if defined(__CUDACC__)
// Enough for the link between two GPUs; their messages of 1 MiB fit the default heap.
constexpr uint32_t kBlocks = 16, kThreads = 512;
#else
constexpr uint32_t kBlocks = 2, kThreads = 32;
#endif

}  // namespace

int main(int argc, char** argv) {
  return peal::run_main([&] {
    using namespace peal::perf;
    const Program program{
        .name = "bandwidth",
        .what = "Bytes per second between pairs of PEs, moved from inside a kernel.",
        .sizes = "1K:1M",
        .ops = {Op::kPut, Op::kGet, Op::kPutSignal, Op::kMemcpy},
        .defaults = {
            .scope = ScopeKind::kBlock, .blocks = kBlocks, .threads = kThreads, .warmup = 8}};
    const Effort effort{.operations = 1 << 16, .bytes = 256 << 20};
    return run_stream(program, Metric::kBandwidth, effort, parse(program, argc, argv));
  });
}
