#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# rejoin_test.sh <peal-run> <rejoin>: PEs die, peal-run starts new processes in their places, and all go on together.
set -u
run=$(realpath "$1")
program=$(realpath "$2")
jobs=$(realpath "$(dirname "$0")/jobs.sh")
folder=$(mktemp -d) || exit 2
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 2
unset TEST_PREMATURE_EXIT_FILE
export PEAL_HEAP_SIZE=4M PEAL_TIMEOUT=120s
# shellcheck source=jobs.sh
source "$jobs"
# right <generation> <PEs>: so many PEs verified it.
right() {
  local count
  count=$(grep -c "generation $1 is right" out)
  [ "$count" = "$2" ] || fail "generation $1 was verified by $count PEs, not $2: $(cat out err)"
}

for way in p2p ibgda; do
  export PEAL_TRANSPORT=$way
  # Any PE may be replaced, PE 0 too, at whose socket all meet; one number twice.
  job 0 -n 3 --restart 2 "$program" kernel 1 0 1
  for generation in 1 2 3 4; do right $generation 3; done
  says "was killed by signal 9 (Killed); started again (2 of 2 times)"
  job 0 -n 3 --restart 1 "$program" call 2
  right 2 3
  job 0 -n 3 --restart 2 "$program" twice 1
  right 2 3
  says "once more: "
  job 0 -n 3 --restart 1 "$program" masked 0
  right 2 3
  job 0 -n 3 --restart 2 "$program" c 1 0
  right 3 3
  job 0 -n 3 --restart 2 "$program" keep 1 0 1
  right 4 3
  job 0 -n 2 --restart 1 "$program" keep-c 1
  right 2 2
done
unset PEAL_TRANSPORT

job 0 -n 2 --restart 1 "$program" alive
says "rejoin: all 2 PEs live, and none is to be replaced"

# The new process is refused as well, and is started once more.
job 0 -n 3 --restart 2 "$program" differ 1
right 2 3
says "rejoin: PE 0 keeps its heap, PE 2 does not: all PEs that live have to, or none"
says "rejoin: the call before, which failed, let the heap go"
PEAL_CHECK=1 job 0 -n 2 --restart 1 "$program" checked 1
right 2 2
says "rejoin: checked mode (PEAL_CHECK) keeps no heap"

# Nobody comes: the survivor hears who is missing, at its deadline.
job 137 -n 2 --keep-going "$program" nobody 1
says "rank 1 of 2 did not join within 500 ms; rejoin() was called without PE 1: a new process in the place of each"
says "this PE has left its job for a rejoin(), which failed: call rejoin() again"
says "rejoin: this process was forked from a PE's that waits for a rejoin(), and is no PE"
# The last restart is used up: the job ends.
job 137 -n 2 --restart 1 "$program" kernel 1 1
# A new process that is not as the others are.
cat >other.sh <<END
[ "\$PEAL_TCP_RESTART" = 0 ] || export PEAL_HEAP_SIZE=8M
exec "$program" kernel 1
END
job 1 -n 2 --restart 1 sh other.sh
says "PEAL_HEAP_SIZE=8388608"

job 2 -n 2 --restart 1001 true
says "--restart 1001: 0 to 1000 times"
job 0 -n 2 --restart 0 sh -c 'exit $PEAL_TCP_RESTART'
job 3 -n 1 --restart 2 sh -c 'exit 3'
[ "$(grep -c 'started again' err)" = 2 ] || fail "not two restarts: $(cat err)"

# Who is asked to end by a signal does so: no PE is replaced.
mkfifo up
"$run" -n 2 --restart 1 sh -c 'echo up >up; exec tail -f /dev/null' >out 2>err &
pid=$!
exec 3<>up
for _ in 1 2; do read -r -t 100 _ <&3 || fail "a PE did not start: $(cat err)"; done
kill -TERM $pid
timeout 100 tail --pid=$pid -f /dev/null || fail "peal-run did not end"
wait $pid
[ $? = 143 ] || fail "not ended by the signal: $(cat err)"
! grep -q 'started again' err || fail "a PE that was to end was replaced: $(cat err)"

[ $failures = 0 ]
