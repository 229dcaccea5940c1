#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs Debian's own rdma-core programs, unchanged, against the software NIC.
#
#   $1 one of the software NIC's libraries
#   $2 devinfo | pingpong | srq_pingpong | perftest | perftest_events | perftest_old | perftest_srq | presented | roce
#   $3 roce: apart.sh
#
# They find it by LD_LIBRARY_PATH alone. Skipped, with the reason, where the package is missing.
set -eu

fail() {
  echo "debian_tools: $*" >&2
  tail -n +1 "$TEST_TMPDIR"/*.log >&2
  exit 1
}

skip() {
  echo "skipped: $1"
  printf '<testsuites><testsuite name="debian_tools"><testcase name="%s"><skipped message="%s"/>%s' \
    "$which" "$1" '</testcase></testsuite></testsuites>' >"$XML_OUTPUT_FILE"
  exit 0
}

# expect FILE TEXT: a line of the file has the text.
expect() { grep -qE -- "$2" "$TEST_TMPDIR/$1.log" || fail "$1 does not say: $2"; }

devinfo() {
  timeout 100 ibv_devices >"$TEST_TMPDIR/devices.log" 2>&1 || fail "ibv_devices: status $?"
  expect devices '^ *mlx5_0[[:space:]]+[0-9a-f]{16}$'
  timeout 100 ibv_devinfo -v >"$TEST_TMPDIR/devinfo.log" 2>&1 || fail "ibv_devinfo: status $?"
  expect devinfo 'hca_id:[[:space:]]mlx5_0'
  expect devinfo 'fw_ver:[[:space:]]+0\.1\.0 softnic-cpu'
  expect devinfo 'state:[[:space:]]+PORT_ACTIVE'
  expect devinfo 'active_mtu:[[:space:]]+4096'
  expect devinfo 'link_layer:[[:space:]]+InfiniBand'
  expect devinfo 'GID\[ *0\]:[[:space:]]+fe80:'
  if timeout 100 ibv_devinfo -d mlx5_7 >"$TEST_TMPDIR/absent.log" 2>&1; then fail "mlx5_7 was found"; fi
}

# listening PORT: some process has it.
listening() {
  grep -qE "^ *[0-9]+: [0-9A-F]+:$(printf %04X "$1") [0-9A-F]+:[0-9A-F]+ 0A" /proc/net/tcp /proc/net/tcp6
}

# connects PORT PROGRAM OPTIONS...: a server, and a client that asks until the server listens.
# Status 1 when somebody else took the port.
connects() {
  local port=$1 give_up=$((SECONDS + 100)) server
  shift
  timeout 100 "$@" -p "$port" >"$TEST_TMPDIR/server.log" 2>&1 &
  server=$!
  until timeout 100 "$@" -p "$port" 127.0.0.1 >"$TEST_TMPDIR/client.log" 2>&1; do
    if ! kill -0 "$server" 2>/dev/null; then
      grep -qiE "listen|in use" "$TEST_TMPDIR/server.log" && return 1
      fail "the server of $*"
    fi
    grep -qiE "couldn't connect" "$TEST_TMPDIR/client.log" || fail "the client of $*"
    [ "$SECONDS" -lt "$give_up" ] || fail "nobody listens: $*"
  done
  wait "$server" || fail "the server of $*: status $?"
}

two_ends() {
  local attempt port
  for attempt in 1 2 3 4 5 6 7 8; do
    port=$((20000 + RANDOM % 12000))
    if listening "$port"; then continue; fi
    if connects "$port" "$@"; then return; fi
  done
  fail "no free port in $attempt tries: $*"
}

ping_pong() {
  two_ends ibv_rc_pingpong "$@"
  expect server ' iters in '
  expect client ' iters in '
  echo "ibv_rc_pingpong $*: $(tail -n 1 "$TEST_TMPDIR/client.log")"
}

pingpong() {
  ping_pong -n 1000
  ping_pong -n 2000 -s 1 -c
  ping_pong -n 50 -s 1000000 -m 4096 -r 8 -c
  ping_pong -n 1000 -e
  ping_pong -n 1000 -N
}

# Sixteen connections, or as many as -q says, receive from one queue.
srq_ping_pong() {
  two_ends ibv_srq_pingpong "$@"
  expect server ' iters in '
  expect client ' iters in '
  echo "ibv_srq_pingpong $*: $(tail -n 1 "$TEST_TMPDIR/client.log")"
}

srq_pingpong() {
  srq_ping_pong -n 1000
  srq_ping_pong -n 1000 -q 1 -s 1
  srq_ping_pong -n 200 -q 3 -s 100000 -m 4096 -r 5
  srq_ping_pong -n 1000 -q 4 -e
}

# iterated COUNT LABEL: the client prints a result of COUNT iterations. On a busy machine perftest may not find out how
# fast its clock is ("Correlation coefficient r^2: 0.88 < 0.9"), says so, and divides by nothing.
iterated() {
  local figure='[0-9.]+'
  if grep -q 'Correlation coefficient' "$TEST_TMPDIR/client.log"; then figure='([0-9.]+|inf|-?nan)'; fi
  expect client "^ *[0-9]+ +$1 +$figure"
  echo "$2: $(grep -E "^ *[0-9]+ +$1 " "$TEST_TMPDIR/client.log")"
}

# perf PROGRAM OPTIONS...: 100 iterations, whose result both ends print.
perf() {
  two_ends "$@" -d mlx5_0 -F -n 100
  iterated 100 "$*"
}

# As they come, perftest's programs use ibv_wr_*; with -e they sleep on a completion channel.
perftest() {
  local program
  for program in ib_write_bw ib_write_lat ib_read_bw ib_read_lat ib_atomic_bw ib_atomic_lat ib_send_bw ib_send_lat; do
    perf "$program"
  done
}

perftest_old() {
  local program
  for program in ib_write_bw ib_write_lat ib_read_bw ib_atomic_lat ib_send_bw; do
    perf "$program" --use_old_post_send
  done
}

# Receives from one queue: of one connection and of four, which fill it; a queue smaller than what is on its way;
# sleeping; and through ibv_post_send.
perftest_srq() {
  perf ib_send_lat --use-srq
  perf ib_send_lat --use-srq -e
  perf ib_send_bw --use-srq
  perf ib_send_bw --use-srq -r 20
  perf ib_send_bw --use-srq -b --use_old_post_send
  two_ends ib_send_bw -d mlx5_0 -F -n 100 --use-srq -q 4
  iterated 400 "ib_send_bw --use-srq -q 4"
}

# perftest has no -e for its WRITE programs.
perftest_events() {
  local program
  for program in ib_read_bw ib_read_lat ib_atomic_bw ib_atomic_lat ib_send_bw ib_send_lat; do
    perf "$program" -e
  done
}

# The same programs on other hardware: two RoCE devices and one whose second port has the cable.
presented() {
  export PEAL_SOFTNIC_PRESENT='devices=2 link=roce mtu=2048; ports=2 port=2'
  timeout 100 ibv_devices >"$TEST_TMPDIR/devices.log" 2>&1 || fail "ibv_devices: status $?"
  for name in mlx5_0 mlx5_1 mlx5_2; do expect devices "^ *$name[[:space:]]+[0-9a-f]{16}$"; done
  timeout 100 ibv_devinfo -v -d mlx5_1 >"$TEST_TMPDIR/devinfo.log" 2>&1 || fail "ibv_devinfo: status $?"
  expect devinfo 'link_layer:[[:space:]]+Ethernet'
  expect devinfo 'active_mtu:[[:space:]]+2048'
  expect devinfo 'port_lid:[[:space:]]+0$'
  expect devinfo 'GID\[ *0\]:[[:space:]]+fe80:.*RoCE v1'
  expect devinfo 'GID\[ *1\]:[[:space:]]+fe80:.*RoCE v2'
  expect devinfo 'GID\[ *3\]:[[:space:]]+::ffff:10\.112\..*RoCE v2'
  timeout 100 ibv_devinfo -v -d mlx5_2 >"$TEST_TMPDIR/devinfo.log" 2>&1 || fail "ibv_devinfo: status $?"
  expect devinfo 'phys_port_cnt:[[:space:]]+2'
  expect devinfo 'state:[[:space:]]+PORT_DOWN'
  expect devinfo 'state:[[:space:]]+PORT_ACTIVE'
  local index
  for index in 0 3; do
    two_ends ib_write_bw -d mlx5_1 -F -n 100 -x "$index"
    iterated 100 "ib_write_bw -x $index"
  done
}

# Each program as on a host of its own, RoCE v2 over UDP between them: GID 3 is the address.
roce() {
  local program line
  for line in "ibv_rc_pingpong -n 1000" "ibv_rc_pingpong -n 50 -s 1000000 -c" "ibv_ud_pingpong -n 1000 -s 1024"; do
    # shellcheck disable=SC2086
    two_ends "$apart" $line -g 3
    expect client ' iters in '
    echo "$line: $(tail -n 1 "$TEST_TMPDIR/client.log")"
  done
  for program in ib_write_bw ib_read_bw ib_atomic_bw ib_send_bw ib_write_lat ib_atomic_lat; do
    perf "$apart" "$program" -x 3
  done
  # Datagrams beyond the kernel's usual receive buffer are lost, and nobody sends them again: fewer than fill it.
  two_ends "$apart" ib_send_bw -d mlx5_0 -F -n 40 -x 3 -c UD -s 1024
  iterated 40 "ib_send_bw -c UD"
  perf "$apart" ib_send_lat -x 3 -e
}

which=$2
apart=${3:-}
if [ "$which" != "${which#perftest}" ] || [ "$which" = presented ] || [ "$which" = roce ]; then
  command -v ib_write_bw >/dev/null || skip "no package perftest"
else
  command -v ibv_devinfo >/dev/null && command -v ibv_rc_pingpong >/dev/null || skip "no package ibverbs-utils"
fi
LD_LIBRARY_PATH=$(cd "$(dirname "$1")" && pwd)
PEAL_SOFTNIC_DIR=$TEST_TMPDIR  # a fabric of this test's own
export LD_LIBRARY_PATH PEAL_SOFTNIC_DIR
"$which"
