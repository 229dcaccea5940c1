#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The GPU suite's quick cases under compute-sanitizer, on a machine with a GPU. Last line: "N passed, N failed".
#
#   sanitize.sh [BUNDLE]     BUNDLE: a folder that tools/bundle made; default: the folder of this script
#
#   memcheck    accesses outside of any allocation, misaligned ones
#   racecheck   lanes that touch the same shared memory without a barrier between them
#   synccheck   barriers that not all of the lanes reach
#
# Calls of the driver that fail are peal's to tell: what memory may be shared by which handle (fabric handles behind
# NVSwitch want an IMEX channel) only the failure of cuMemCreate says.
#
# Each tool runs 1 PE and then 2, or what PES lists. SECONDS_EACH bounds a run (default 100).
bundle=${1:-$(dirname "${BASH_SOURCE[0]}")}
[ -x "$bundle/run.sh" ] || { sed -n '4,16s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; exit 2; }
bundle=$(cd "$bundle" && pwd)
sanitizer=$(command -v compute-sanitizer || echo /usr/local/cuda/bin/compute-sanitizer)
[ -x "$sanitizer" ] || { echo "sanitize.sh: no compute-sanitizer: install the CUDA toolkit" >&2; exit 2; }
log=$(mktemp)
trap 'rm -f "$log"' EXIT

passed=0 failed=0
for tool in memcheck racecheck synccheck; do
  options=(--tool "$tool" --error-exitcode 99 --print-limit 5)
  [ "$tool" != memcheck ] || options+=(--report-api-errors no)
  for pes in ${PES:-1 2}; do
    begin=$SECONDS
    # Kernels become slow, and a slow peer is no lost one.
    PEAL_TIMEOUT=${PEAL_TIMEOUT:-60s} timeout -k 5 "${SECONDS_EACH:-100}" "$bundle/run.sh" "$pes" "$sanitizer" \
      "${options[@]}" "$bundle/bin/suite" --quick >"$log" 2>&1
    status=$?
    score=$(grep -E '^[0-9]+ passed, 0 failed' "$log")
    clean=$(grep -cE 'ERROR SUMMARY: 0 errors|RACECHECK SUMMARY: 0 hazards' "$log")
    if [ $status = 0 ] && [ -n "$score" ] && [ "$clean" = "$pes" ]; then
      passed=$((passed + 1)) verdict=clean
    else
      failed=$((failed + 1)) verdict="FAILED (status $status)"
      tail -n 60 "$log"
    fi
    echo "$tool, $pes PE(s): $verdict; suite: ${score:-did not finish}; $((SECONDS - begin)) s"
  done
done
echo "$passed passed, $failed failed"
[ $failed = 0 ]
