#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs UCX's ucx_perftest, unchanged, against the software NIC, each test between two processes. UCX composes its own
# work queue entries and rings its own doorbells: a second reader of the same hardware.
#
#   $1 one of the software NIC's libraries   $2 libpeal_sysfs.so   $3 the transport, a list below
#   $4 ib or roce, the link layer
#
# Skipped, with the reason, where the package is missing.
set -eu

fail() {
  echo "ucx: $*" >&2
  tail -n +1 "$TEST_TMPDIR"/*.log >&2
  exit 1
}

skip() {
  echo "skipped: $1"
  printf '<testsuites><testsuite name="ucx"><testcase name="%s"><skipped message="%s"/></testcase>%s' \
    "$transport" "$1" '</testsuite></testsuites>' >"$XML_OUTPUT_FILE"
  exit 0
}

# What must pass: test, bytes, iterations, layout of the data; in one batch of one connection.
rc_verbs='
am_lat 8 100 -D short
am_lat 2000 100 -D bcopy
am_bw 8000 200 -D zcopy
put_lat 8 200 -D short
put_bw 64 200 -D short
put_bw 4000 200 -D bcopy
put_bw 1000000 20 -D zcopy
get 4000 200 -D bcopy
get 1000000 20 -D zcopy
add_mr 8 200 -D short
fadd 8 200 -D short
cswap 8 200 -D short
'
rc_mlx5='
am_lat 8 50 -D short
am_lat 2000 50 -D bcopy
am_bw 8000 100 -D zcopy
put_lat 8 50 -D short
put_bw 100 200 -D short
put_bw 4000 200 -D bcopy
put_bw 1000000 20 -D zcopy
get 4000 50 -D bcopy
get 1000000 20 -D zcopy
add_mr 8 50 -D short
add_mr 4 50 -D short
fadd 8 50 -D short
fadd 4 50 -D short
swap 8 50 -D short
swap 4 50 -D short
cswap 8 50 -D short
cswap 4 50 -D short
'
dc_mlx5=$rc_mlx5
ud_mlx5='
am_lat 8 50 -D short
am_lat 2000 50 -D bcopy
am_bw 3000 100 -D zcopy
'
ud_verbs=$ud_mlx5

listening() {
  grep -qE "^ *[0-9]+: [0-9A-F]+:$(printf %04X "$1") [0-9A-F]+:[0-9A-F]+ 0A" /proc/net/tcp /proc/net/tcp6
}

perftest() {
  timeout 250 env LD_PRELOAD="$preload" UCX_WARN_UNUSED_ENV_VARS=n \
    ucx_perftest -x "$transport" -d mlx5_0:1 -f -w 20 -b "$TEST_TMPDIR/batch" "$@"
}

# Status 1 when somebody else took the port.
connects() {
  local port=$1 give_up=$((SECONDS + 100)) server
  perftest -p "$port" >"$TEST_TMPDIR/server.log" 2>&1 &
  server=$!
  until listening "$port"; do
    if ! kill -0 "$server" 2>/dev/null; then
      grep -qiE "bind|in use" "$TEST_TMPDIR/server.log" && return 1
      fail "the server ended"
    fi
    [ "$SECONDS" -lt "$give_up" ] || fail "nobody listens"
  done
  perftest -p "$port" 127.0.0.1 >"$TEST_TMPDIR/client.log" 2>&1 || fail "the client: status $?"
  wait "$server" || fail "the server: status $?"
}

two_ends() {
  local attempt port
  for attempt in 1 2 3 4 5 6 7 8; do
    port=$((20000 + RANDOM % 12000))
    if listening "$port"; then continue; fi
    if connects "$port"; then return; fi
  done
  fail "no free port in $attempt tries"
}

transport=$3
command -v ucx_perftest >/dev/null || skip "no package ucx-utils"
LD_LIBRARY_PATH=$(cd "$(dirname "$1")" && pwd)
preload=$(realpath "$2")
PEAL_SOFTNIC_DIR=$TEST_TMPDIR # a fabric of this test's own
# ucx_perftest ends its puts with one whose last byte differs, and waits at the target for that byte: another put must
# not be placed later.
PEAL_SOFTNIC_PLACEMENT=ordered
PEAL_SOFTNIC_PRESENT="link=$4 mtu=4096"
export LD_LIBRARY_PATH PEAL_SOFTNIC_DIR PEAL_SOFTNIC_PLACEMENT PEAL_SOFTNIC_PRESENT

# With relaxed ordering, which UCX chooses on AMD's CPUs, puts behind a fence and atomics name a strict key at addresses
# with an offset, a KSM key over the registration; without, atomics alone do.
complete=${!transport}
brief=$(grep -E '^(put_lat|add_mr|cswap) 8 ' <<<"$complete") || true

# All tests that standard input lists, with that ordering.
passes() {
  export UCX_IB_PCI_RELAXED_ORDERING=$1
  while read -r test bytes iterations layout; do
    [ -n "$test" ] || continue
    echo "$test-$bytes-${layout#-D } -t $test -s $bytes -n $iterations $layout"
  done >"$TEST_TMPDIR/batch"
  two_ends
  # A test that passed leaves a line of figures at the client, whose averages since the last report may be nan or inf.
  while read -r name _; do
    grep -qE "^$name +[0-9]+ .* [0-9]+$" "$TEST_TMPDIR/client.log" || fail "no figures of $name, ordering $1"
  done <"$TEST_TMPDIR/batch"
  if grep -hE 'ERROR|WARN|DIAG' "$TEST_TMPDIR"/{client,server}.log >&2; then fail "UCX complains, ordering $1"; fi
  cat "$TEST_TMPDIR/client.log"
}

passes y <<<"$complete"
[ -z "$brief" ] || passes n <<<"$brief"
