#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# examples_test.sh <run_mp.sh> <example>...: each example ends well with 1, 2, 3, 4 and 8 PEs and says so: hello once from
# every PE, the others "ok" once; with 4 also where a CPU thread posts for the kernels.
set -u

run=$1
shift
failures=0
for program in "$@"; do
  for job in 1 2 3 4 8 4:proxy; do
    pes=${job%:*}
    transport=auto
    [ "$job" = "$pes" ] || transport=${job#*:}
    # hello speaks on every PE, but only rank 0's words come through.
    wanted=ok
    [ "${program##*/}" = hello ] && wanted="PE 0 of $pes: hello from PE $((pes - 1)), ok"
    if ! output=$(PEAL_TRANSPORT=$transport PEAL_MP_LIMIT=60 "$run" "$pes" "$program" 2>&1) || [ "$output" != "$wanted" ]; then
      echo "${program##*/} on $job PEs: expected '$wanted', got:"
      echo "$output"
      failures=$((failures + 1))
    fi
  done
done
exit $((failures != 0))
