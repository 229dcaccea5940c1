// SPDX-License-Identifier: Apache-2.0
//
// How long one operation takes, made by one thread, one warp or one block.
//
//   put, put_signal, p   half a ping-pong: PE A sends message i and waits for B's answer i
//   get, g, atomic_add   the call itself, from request to value (atomic_add: atomic_fetch_add)
//
//   mpirun -np 2 bazel-bin/perf/latency --op put_signal --sizes 8:64K
#include "perf/common/program.h"

int main(int argc, char** argv) {
  using namespace peal::perf;
  using Kernels = List<InAllScopes<Sampled, PutThenSignalCall, PutSignalCall<0>, GetNowCall>,
                       Sampled<PAsFlagCall<uint32_t>>, Sampled<PAsFlagCall<uint64_t>>,
                       Sampled<GCall<uint32_t>>, Sampled<GCall<uint64_t>>,
                       Sampled<FetchAddCall<uint32_t>>, Sampled<FetchAddCall<uint64_t>>>;
  return run_program<Kernels>(
      {.name = "latency",
       .what = "Time of one operation between pairs of PEs, as a kernel sees it.",
       .sizes = "8:64K",
       .ops = {{"put_signal", Op::kPutSignal, CallWay::kBounce},
               {"put", Op::kPut, CallWay::kBounce},
               {"get", Op::kGet, CallWay::kCall},
               {"p", Op::kP, CallWay::kBounce},
               {"g", Op::kG, CallWay::kCall},
               {"atomic_add", Op::kFetchAdd, CallWay::kCall}},
       .defaults = {.warmup = 100},
       .metric = Metric::kLatency,
       .effort = {.operations = 2000, .bytes = 16 << 20}},
      argc, argv);
}
