#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# bootstrap_abort_test.sh <run_mp.sh> <program>: abort() of one rank ends all four, at once, with its reason on stderr.
set -u

output=$(PEAL_MP_LIMIT=60 "$1" 4 "$2" --gtest_also_run_disabled_tests --gtest_filter='*AbortEndsAllRanks' 2>&1)
status=$?
if [ $status = 0 ] || [ $status = 124 ]; then
  echo "exit status $status: abort() did not end the job"
  exit 1
fi
grep -q 'peal: rank 2 of 4 aborts: the heap is gone' <<<"$output" || { echo "no reason in: $output"; exit 1; }
