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
