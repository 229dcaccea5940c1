#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# leave_test.sh <peal-run> <leave>: PEs that leave without ending their Runtime. The process ended by SIGSEGV: statics of
# the library were destroyed before the Runtime that still used them. And who left was taken for one that meets: the
# others' barrier answered 0.
set -u
run=$1
leave=$2
failures=0
log=$(mktemp) || exit 2
trap 'rm -f "$log"' EXIT

# job <exit code> <PEs> <transport> <way>
job() {
  local code
  PEAL_TRANSPORT=$3 timeout --kill-after=5 60 "$run" --keep-going -n "$2" "$leave" "$4" >"$log" 2>&1
  code=$?
  [ $code = "$1" ] && return
  echo "leave $4 on $2 PEs by $3: exit code $code, not $1: $(cat "$log")"
  failures=$((failures + 1))
}

for transport in p2p ibgda proxy; do
  for way in c cxx nvshmem; do
    job 0 2 $transport $way
    [ -s "$log" ] && { echo "leave $way by $transport said: $(cat "$log")"; failures=$((failures + 1)); }
  done
  job 3 3 $transport exit
  for pe in 1 2; do
    grep -q "PE $pe: the barrier answered -1: barrier #[0-9]*: rank 0 of 3 has left the group" "$log" && continue
    echo "PE $pe does not hear that PE 0 has left: $(cat "$log")"
    failures=$((failures + 1))
  done
done
exit $((failures != 0))
