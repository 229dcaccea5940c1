#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# race_test.sh <install> <races.cu> <races_pes.cu> <races_threads.cu> <NVSHMEM's program>...: peal-cc --race of an
# installation that was built with ThreadSanitizer finds planted races of lanes, of kernels and the host and of PEs, with
# their lines and lanes, and finds none in right programs, under peal-run and under mpirun.
set -u
install=$1
mapfile -t planted < <(realpath "${@:2:3}")
mapfile -t programs < <(realpath "${@:5}")
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
# shellcheck source=expect.sh
source "$(dirname "$0")/expect.sh"

expect "find_package(peal)" "$install" --prefix "$work/peal"
if ! grep -q __tsan_func_entry "$work/peal/lib/libpeal.so"; then
  echo "skipped: built without ThreadSanitizer: bazel test --config=tsan"
  exit 0
fi
export PATH="$work/peal/bin:$PATH" PEAL_TIMEOUT=60s
unset PEAL_SOFTNIC_PLACEMENT
echo 'int main() {}' >"$work/none.cu"
refuse "tools/install --race" peal-cc --race "$work/none.cu"
expect "" "$install" --prefix "$work/peal" --race
cd "$work" || exit 2

# finds FILE NAME COMMAND...: reports the line of FILE that ends with NAME, and a lane of a kernel NAME.
finds() {
  local file=$1 name=$2 line lane
  shift 2
  line=$(basename "$file"):$(grep -n "// $name\$" "$file" | cut -d: -f1)
  lane="'block ([0-9]+,0,0) thread ([0-9]+,0,0) of $name'"
  refuse "WARNING: ThreadSanitizer: data race" "$@"
  grep -qF "/$line" log || fail "$*: no $line in: $(head -n 60 log)"
  grep -qE "${lane//[()]/\\&}" log || fail "$*: no lane of $name in: $(grep -F Thread log)"
}
# silent TEXT COMMAND...: ends well, says TEXT, and nothing is reported.
silent() {
  expect "$@"
  grep -q ThreadSanitizer log && fail "${*:2}: a false alarm: $(head -n 60 log)"
}

for program in "${planted[@]}"; do
  name=$(basename "$program" .cu)
  expect "" peal-cc --race "$program" -o "$name"
  expect "" peal-cc --race -DRIGHT "$program" -o "${name}_right"
done
for name in lanes shared warp blocks publish flag host; do
  finds "${planted[0]}" "$name" ./races "$name"
  silent "" ./races_right "$name"
done
finds "${planted[1]}" poll peal-run -n 2 ./races_pes
silent "seen: 7" peal-run -n 2 ./races_pes_right
for transport in p2p ibgda; do
  finds "${planted[2]}" poll env PEAL_TRANSPORT=$transport ./races_threads
  silent "seen: 7" env PEAL_TRANSPORT=$transport ./races_threads_right
done

for program in "${programs[@]}"; do
  name=$(basename "$program" .cu)
  expect "" peal-cc --race "$program" -o "$name"
  silent "$name: ok on 2 PEs" peal-run -n 2 "./$name"
done
# What the hosts tell one another by sockets orders the NIC's stores behind what they did to the memory before.
for name in hello ring halo threads work_stealing; do
  expect "" peal-cc --race "$work/peal/share/peal/examples/$name.cu" -o "example_$name"
  silent "" peal-run -n 2 "./example_$name"
done
# Open MPI is no concern of the user's.
silent "seen: 7" mpirun --oversubscribe --allow-run-as-root --bind-to none -np 2 ./races_pes_right
finish
