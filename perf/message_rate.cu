// SPDX-License-Identifier: Apache-2.0
//
// How many small operations a second kernels get through, counted until quiet() says that all are
// done.
//
//   mpirun -np 2 bazel-bin/perf/message_rate --op put --sizes 8 --json
#include "peal/peal.h"
#include "perf/common/stream.h"

int main(int argc, char** argv) {
  return peal::run_main([&] {
    using namespace peal::perf;
    const Program program{
        .name = "message_rate",
        .what = "Operations per second between pairs of PEs, posted from inside a kernel.",
        .sizes = "8",
        .ops = {Op::kPut, Op::kGet, Op::kP, Op::kG, Op::kAtomicAdd, Op::kPutSignal},
        .defaults = {.blocks = 2, .threads = 32}};
    const CommandLine line = parse(program, argc, argv);
    // Warps and blocks post one operation where threads post many.
    const bool threads = line.options.scope == ScopeKind::kThread;
    const Effort effort{.operations = threads ? 1u << 20 : 1u << 16, .bytes = 128 << 20};
    return run_stream(program, Metric::kMessageRate, effort, line);
  });
}
