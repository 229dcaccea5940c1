#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# death_test.sh <run_mp.sh> <die>: jobs that lose a PE must end, soon, with an exit status other than 0; and where no
# launcher ends the survivors, they say whom they lost.
set -u
run_mp=$1
die=$2

fail() { echo "$*"; exit 1; }

# expect_end <PEs> <when>: mpirun ends the job.
expect_end() {
  local begin=$SECONDS status
  PEAL_MP_LIMIT=60 "$run_mp" "$1" "$die" "$2" >/dev/null 2>&1
  status=$?
  [ $status != 0 ] || fail "mpirun -np $1 die $2: ended as if nothing had happened"
  [ $status != 124 ] || fail "mpirun -np $1 die $2: hung"
  [ $((SECONDS - begin)) -lt 20 ] || fail "mpirun -np $1 die $2: took $((SECONDS - begin)) s"
}

expect_end 2 run
expect_end 2 init
expect_end 4 run

# Over TCP nobody ends the survivors: PE 0 and PE 2 do so themselves.
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
PEAL_TCP_ID=$("$die" id)
export PEAL_TCP_ID PEAL_TCP_SIZE=3 PEAL_BOOTSTRAP=tcp PEAL_BOOTSTRAP_TIMEOUT=20s
begin=$SECONDS
pids=()
for rank in 0 1 2; do
  PEAL_TCP_RANK=$rank timeout 50 "$die" run >"$logs/$rank" 2>&1 &
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
[ $((SECONDS - begin)) -lt 20 ] || fail "over TCP: took $((SECONDS - begin)) s"
