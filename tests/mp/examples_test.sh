#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# examples_test.sh <run_mp.sh> <example>...: each example ends well with 1, 2, 3, 4 and 8 PEs and says so: hello once from
# every PE, the others "ok" once; with 4 also where a CPU thread posts for the kernels. The steps of the tutorial are one
# program, and run with 1, 3 and 4 PEs.
set -u

run=$1
shift
failures=0

# runs PROGRAM [ARGUMENT] -- JOB...: a job is a number of PEs, and behind a colon the transport.
runs() {
  local program=$1 arguments=() job pes transport wanted output
  shift
  while [ "$1" != -- ]; do
    arguments+=("$1")
    shift
  done
  shift
  for job in "$@"; do
    pes=${job%:*}
    transport=auto
    [ "$job" = "$pes" ] || transport=${job#*:}
    # hello speaks on every PE, but only rank 0's words come through.
    wanted=ok
    [ "${program##*/}" = hello ] && wanted="PE 0 of $pes: hello from PE $((pes - 1)), ok"
    if ! output=$(PEAL_TRANSPORT=$transport PEAL_MP_LIMIT=200 "$run" "$pes" "$program" "${arguments[@]}" 2>&1) ||
      [ "$output" != "$wanted" ]; then
      echo "${program##*/} ${arguments[*]} on $job PEs: expected '$wanted', got:"
      echo "$output"
      failures=$((failures + 1))
    fi
  done
}

for program in "$@"; do
  if [ "${program##*/}" = all_steps ]; then
    for step in step1_put step2_signal step3_scopes step4_teams step5_plan step6_dispatch; do
      runs "$program" "$step" -- 1 3 4:ibgda
    done
  else
    runs "$program" -- 1 2 3 4 8 4:proxy
  fi
done
exit $((failures != 0))
