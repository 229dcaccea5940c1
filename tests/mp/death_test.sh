#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# death_test.sh <run_mp.sh> <die> <message_rate>: jobs that lose a PE must end, with an exit status other than 0; and where no
# launcher ends the survivors, they say whom they lost. No deadline of peal's is as short as the limits here: what ends
# before those has ended because of the loss.
set -u
run_mp=$1
die=$2
rate=$3

export PEAL_TIMEOUT=600s PEAL_BOOTSTRAP_TIMEOUT=600s

fail() { echo "$*"; exit 1; }

# expect_end <PEs> <when>: mpirun ends the job.
expect_end() {
  local status
  PEAL_MP_LIMIT=200 "$run_mp" "$1" "$die" "$2" >/dev/null 2>&1
  status=$?
  [ $status != 0 ] || fail "mpirun -np $1 die $2: ended as if nothing had happened"
  [ $status != 124 ] || fail "mpirun -np $1 die $2: hung"
}

expect_end 2 run
expect_end 2 init
expect_end 4 run

# Over TCP nobody ends the survivors: PE 0 and PE 2 do so themselves.
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
export PEAL_TCP_ID PEAL_TCP_SIZE=3 PEAL_BOOTSTRAP=tcp
lose_one() {
  local how=$1 rank status
  PEAL_TCP_ID=$("$die" id)
  pids=()
  for rank in 0 1 2; do
    PEAL_TCP_RANK=$rank timeout 200 "$die" "$how" >"$logs/$rank" 2>&1 &
    pids+=($!)
  done
  for rank in 0 1 2; do
    wait "${pids[$rank]}"
    status=$?
    [ $status != 0 ] && [ $status != 124 ] || fail "PE $rank: exit status $status; $(cat "$logs/$rank")"
    [ $rank = 1 ] && continue
    grep -q "the wait of PE $rank ended: peer lost" "$logs/$rank" || fail "PE $rank: $(cat "$logs/$rank")"
    grep -q "PE $rank: PE 1 ended before the job did" "$logs/$rank" || fail "PE $rank: $(cat "$logs/$rank")"
  done
}
lose_one run
# Where a kernel of its own ended it, it says which.
began=$SECONDS
lose_one crash
told="^PE 1: kernel crash, block \(0,0,0\), thread \(2,0,0\): segmentation fault at address 0x8, in |Sanitizer"
# Names that are not found within 5 s are left out.
[ $((SECONDS - began)) -ge 5 ] || grep -qE "$told" "$logs/1" || fail "PE 1: $(cat "$logs/1")"

# One of four PEs is killed in the middle of perf/message_rate: the other three end, not with 0, and each names it.
export PEAL_TCP_SIZE=4
# There are so many sizes that it is in the middle, however late this shell is.
sizes=8,64$(printf ',8,64%.0s' {1..500})
kill_one() {
  local victim=$1 rank status child row
  pids=()
  PEAL_TCP_ID=$("$die" id)
  rm -f "$logs/rows"
  mkfifo "$logs/rows"
  for rank in 0 1 2 3; do
    local rows=/dev/null
    [ $rank = 0 ] && rows=$logs/rows
    PEAL_TCP_RANK=$rank timeout 200 "$rate" --iters 2000 --sizes "$sizes" --json \
      >"$rows" 2>"$logs/$rank" &
    pids+=($!)
  done
  exec 3<"$logs/rows"
  read -r row <&3 || fail "message_rate on 4 PEs: no row; $(cat "$logs"/[0-3])"  # the next sizes are under way
  cat <&3 >/dev/null &  # a PE 0 that has rows to tell is not to wait for a reader
  read -r child <"/proc/${pids[$victim]}/task/${pids[$victim]}/children"
  kill -9 "$child"
  for rank in 0 1 2 3; do
    wait "${pids[$rank]}"
    status=$?
    [ $status != 0 ] && [ $status != 124 ] || fail "PE $rank outlived PE $victim: exit status $status; $(cat "$logs/$rank")"
    [ $rank = "$victim" ] && continue
    grep -qE "(PE|rank) $victim\b" "$logs/$rank" || fail "PE $rank does not name PE $victim: $(cat "$logs/$rank")"
  done
  exec 3<&-
}
kill_one 2
kill_one 0
