#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# bootstrap_failure_test.sh <run_mp.sh> <program>: runs that must fail, each soon and with its reason in the output.
set -u
unset XML_OUTPUT_FILE # what fails inside is what is wanted; this script's own status is the report
run_mp=$1
program=$2

# expect_failure <test> <reason>
expect_failure() {
  local output status
  output=$(PEAL_MP_LIMIT=120 "$run_mp" 4 "$program" --gtest_also_run_disabled_tests --gtest_filter="$1" 2>&1)
  status=$?
  if [ $status = 0 ] || [ $status = 124 ]; then
    echo "$1: exit status $status instead of a failure"
    exit 1
  fi
  grep -q "$2" <<<"$output" || { echo "$1: no '$2' in: $output"; exit 1; }
}

expect_failure 'OwnMpi.DISABLED_AbortEndsAllRanks' 'peal: rank 2 of 4 aborts: the heap is gone'
expect_failure 'LateMpi.DISABLED_InitIsBounded' 'MPI_Init_thread did not return in time: another rank has not called it'
