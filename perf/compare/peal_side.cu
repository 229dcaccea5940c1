// SPDX-License-Identifier: Apache-2.0
//
// The comparison's cases on peal. Started by compare.py; alone:
//
//   mpirun -np 2 bazel-bin/perf/compare/peal_side --ops put_signal,barrier_all
#include "perf/compare/comparison.h"
#include "perf/compare/peal_api.h"

int main(int argc, char** argv) {
  return peal::run_main([&] {
    using namespace peal::versus;
    const Options options = parse(argc, argv);
    peal::Runtime runtime = peal::start();
    PealSide side(runtime);
    const int code = Comparison<PealSide>(side, options).run();
    runtime.check();
    return code;
  });
}
