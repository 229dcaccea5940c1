#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# apps_test.sh <install> <all_apps.cu>: peal-cc of an installation compiles the applications of perf/apps. Small ones are
# right on 2 PEs, by mapped memory and by the software NIC; wrong options are refused.
set -u
install=$1
source=$(realpath "$2")
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
# shellcheck source=expect.sh
source "$(dirname "$0")/expect.sh"

expect "find_package(peal)" "$install" --prefix "$work/peal"
export PATH="$work/peal/bin:$PATH" PEAL_TIMEOUT=60s PEAL_HEAP_SIZE=16M
unset PEAL_SOFTNIC_PLACEMENT
cd "$work" || exit 2
expect "" peal-cc "$source" -o apps -O0 -I"$(dirname "$(dirname "$(dirname "$source")")")"

# right APP OPTION...: on 2 PEs.
right() {
  local transport
  for transport in p2p ibgda; do
    expect "\"app\": \"$1\", \"side\": \"peal\", \"pes\": 2" env PEAL_TRANSPORT=$transport peal-run -n 2 ./apps "$@"
    grep -qF '"errors": 0}' "$work/log" || fail "$*: $(cat "$work/log")"
  done
}
right gups --words 4096 --updates 8 --blocks 2 --threads 32
right moe --tokens 8 --hidden 64 --experts 8 --top 2 --blocks 2 --threads 32 --rounds 2
right pages --bytes 1024 --pages 20 --blocks 2 --threads 32 --rounds 2
right stencil --n 16 --steps 5 --pieces 2 --threads 32
right transpose --n 64 --strip 4 --threads 32 --rounds 2
refuse "--words takes a number of at least 1, not '0'" peal-run -n 2 ./apps gups --words 0
refuse "--words takes a power of two" peal-run -n 2 ./apps gups --words 3
refuse "unknown option, or one without a value: --word" peal-run -n 2 ./apps gups --word 4
refuse "an even number of PEs" peal-run -n 1 ./apps pages
refuse "a multiple of the number of PEs" peal-run -n 2 ./apps stencil --n 15
finish
