#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# bootstrap_failure_test.sh <run_mp.sh> <program>: runs that must fail, each soon and with its reason in the output.
set -u
unset XML_OUTPUT_FILE # what fails inside is what is wanted; this script's own status is the report
run_mp=$1
program=$2

# expect_failure <test> <reason>: mpirun, once its ranks have been aborted, now and then stays until it is killed: then the
# job is run again, with more time.
expect_failure() {
  local output status limit
  for limit in 20 60 180; do
    output=$(PEAL_MP_LIMIT=$limit "$run_mp" 4 "$program" --gtest_also_run_disabled_tests --gtest_filter="$1" 2>&1)
    status=$?
    [ $status = 124 ] || [ $status = 137 ] || break # as timeout ends
    grep -q "$2" <<<"$output" || break
  done
  if [ $status = 0 ] || [ $status = 124 ] || [ $status = 137 ]; then
    echo "$1: exit status $status instead of a failure: $output"
    exit 1
  fi
  grep -q "$2" <<<"$output" || { echo "$1: no '$2' in: $output"; exit 1; }
}

expect_failure 'OwnMpi.DISABLED_AbortEndsAllRanks' 'peal: rank 2 of 4 aborts: the heap is gone'
expect_failure 'LateMpi.DISABLED_InitIsBounded' 'MPI_Init_thread did not return in time: another rank has not called it'
