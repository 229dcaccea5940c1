// SPDX-License-Identifier: Apache-2.0
//
// How long one operation takes, made by one thread, one warp or one block.
//
//   put, put_signal, p   half a ping-pong: PE A sends message i and waits for B's answer i
//   get, g, atomic_add   the call itself, from request to value (atomic_add: atomic_fetch_add)
//
//   mpirun -np 2 bazel-bin/perf/latency --op put_signal --sizes 8:64K
#include "perf/common/exchange.h"

int main(int argc, char** argv) {
  return peal::run_main([&] {
    using namespace peal::perf;
    const Program program{
        .name = "latency",
        .what = "Time of one operation between pairs of PEs, as a kernel sees it.",
        .sizes = "8:64K",
        .ops = {Op::kPutSignal, Op::kPut, Op::kGet, Op::kP, Op::kG, Op::kAtomicAdd},
        .defaults = {.op = Op::kPutSignal, .warmup = 100},
        .one_agent = true};
    return run_exchange(parse(program, argc, argv));
  });
}
