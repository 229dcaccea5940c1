// SPDX-License-Identifier: Apache-2.0
//
// How many small operations a second kernels get through, counted until quiet() says that all are
// done.
//
//   mpirun -np 2 bazel-bin/perf/message_rate --op put --sizes 8 --json
#include "perf/common/program.h"

int main(int argc, char** argv) {
  using namespace peal::perf;
  using Kernels =
      List<InAllScopes<Streams, PutCall, GetCall, PutCountedCall>, Streams<PCall<uint8_t>>,
           Streams<PCall<uint16_t>>, Streams<PCall<uint32_t>>, Streams<PCall<uint64_t>>,
           Streams<GCall<uint8_t>>, Streams<GCall<uint16_t>>, Streams<GCall<uint32_t>>,
           Streams<GCall<uint64_t>>, Streams<AddCall<uint32_t>>, Streams<AddCall<uint64_t>>>;
  return run_program<Kernels>(
      {.name = "message_rate",
       .what = "Operations per second between pairs of PEs, posted from inside a kernel.",
       .sizes = "8",
       .ops = {{"put", Op::kPut, CallWay::kStream},
               {"get", Op::kGet, CallWay::kStream},
               {"p", Op::kP, CallWay::kStream},
               {"g", Op::kG, CallWay::kStream},
               {"atomic_add", Op::kAdd, CallWay::kStream},
               {"put_signal", Op::kPutSignal, CallWay::kStream}},
       .defaults = {.blocks = 2, .threads = 32}},
      argc, argv);
}
