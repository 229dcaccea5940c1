#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# sim_test.sh <install> <install_simulated> <simulated.cu> <example>...: peal-cc --sim and peal-sim of an installation
# find the schedules under which planted mistakes show, name their lines, and find none in right programs.
set -u
install=$1
install_simulated=$2
planted=$(realpath "$3")
mapfile -t examples < <(realpath "${@:4}")
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
# shellcheck source=expect.sh
source "$(dirname "$0")/expect.sh"

expect "find_package(peal)" "$install" --prefix "$work/peal"
export PATH="$work/peal/bin:$PATH" PEAL_TIMEOUT=60s
echo 'int main() {}' >"$work/none.cu"
refuse "tools/install --sim" peal-cc --sim "$work/none.cu"
expect "" "$install_simulated" --prefix "$work/peal" --sim
cd "$work" || exit 2

expect "" peal-cc --sim "$planted" -o simulated
expect "" peal-cc --sim -DRIGHT "$planted" -o right
for name in plain put scope order sum locks; do
  line=simulated.cu:$(grep -n "// $name\$" "$planted" | cut -d: -f1)
  refuse "kernel $name" peal-sim -n 2 --seeds 1000 ./simulated "$name"
  grep -qF "$line" log || fail "$name: no $line in: $(cat log)"
  seed=$(sed -n 's/^again: peal-sim -n 2 --seed \([0-9]*\) .*/\1/p' log)
  refuse "FAILED" peal-sim -n 2 --seed "$seed" ./simulated "$name"
  expect "ok: 2 PEs under 200 seeds" peal-sim -n 2 --seeds 200 ./right "$name"
done
for name in plain put scope order; do
  refuse "an old value" peal-sim ./simulated "$name"
done

for example in "${examples[@]}"; do
  name=$(basename "$example" .cu)
  expect "" peal-cc --sim "$example" -o "$name"
  expect "ok: 3 PEs under 20 seeds" peal-sim -n 3 --seeds 20 "./$name"
done

# A grid of which a part is resident: each thread runs once. A call of all its blocks is refused.
cat >waves.cu <<'END'
#include <peal/peal.h>
#include <string>
#include <vector>
__global__ void add(const float* a, const float* b, float* sum) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  sum[i] += a[i] + b[i];
}
__global__ void all(peal::Context ctx, peal::Team team, int* dst, int* src) {
  (void)peal::all_reduce(ctx, peal::whole_grid, team, dst, src, 1, peal::op::sum);
}
int run(unsigned blocks, bool whole) {
  peal::Runtime pe = peal::start();
  if (whole) {
    int* const words = pe.allocate<int>(2);
    all<<<blocks, 64>>>(pe.context(), pe.world(), words, words + 1);
    return cudaDeviceSynchronize() == cudaSuccess ? 0 : 3;
  }
  const size_t n = blocks * 64;
  std::vector<float> one(n, 1), two(n, 2), none(n, 0);
  float *a, *b, *sum;
  for (float** to : {&a, &b, &sum}) cudaMalloc(to, n * sizeof(float));
  cudaMemcpy(a, one.data(), n * sizeof(float), cudaMemcpyHostToDevice);
  cudaMemcpy(b, two.data(), n * sizeof(float), cudaMemcpyHostToDevice);
  cudaMemcpy(sum, none.data(), n * sizeof(float), cudaMemcpyHostToDevice);
  add<<<blocks, 64>>>(a, b, sum);
  if (cudaDeviceSynchronize() != cudaSuccess) return 2;
  cudaMemcpy(none.data(), sum, n * sizeof(float), cudaMemcpyDeviceToHost);
  for (const float value : none)
    if (value != 3) return 1;
  return 0;
}
int main(int, char** argv) {
  return peal::run_main([&] { return run(std::stoi(argv[1]), argv[2] != nullptr); });
}
END
expect "" peal-cc --sim waves.cu -o waves
expect "ok: 2 PEs under 3 seeds" env SIMT_MAX_LANES=256 peal-sim -n 2 --seeds 3 ./waves 40
refuse "all_reduce by a grid needs all of its 40 blocks of 64 threads at once, and only 4" \
  env SIMT_MAX_LANES=256 peal-sim -n 2 --seeds 1 ./waves 40 whole

# Each failure in its own words, and wrong options with the remedy.
cat >ends.cu <<'END'
#include <peal/peal.h>
#include <cstdlib>
#include <string>
int main(int, char** argv) {
  peal::Runtime pe = peal::start();
  const std::string how = argv[1];
  if (how == "exit" && pe.my_pe() == 1) std::exit(0);
  if (how == "abort" && pe.my_pe() == 1) std::abort();
  if (how == "early" && pe.my_pe() == 1) return 0;
  if (how == "status") return 5 * pe.my_pe();
  pe.barrier();
}
END
expect "" peal-cc --sim ends.cu -o ends
refuse "called exit(0) before all PEs were at the end of main()" peal-sim ./ends exit
refuse "signal Aborted" peal-sim ./ends abort
refuse "PE 1: main() returned 5" peal-sim ./ends status
expect "ok" peal-sim ./ends none
refuse "--sede" peal-sim --sede 1 ./ends none
refuse "a number from 1 to 64" peal-sim -n 65 ./ends none
refuse "PEAL_TRANSPORT" env PEAL_TRANSPORT=ibgda peal-sim ./ends none
refuse "was not made by peal-cc --sim" peal-sim peal-run
refuse "--sim: a program has the one or the other" peal-cc --sim --race ends.cu
finish
