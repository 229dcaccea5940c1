#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs fuzz targets, each for some time from its corpus, and says of each: executions, coverage, what was found.
# Last line: "N passed, N failed".
#
#   tests/fuzz/run.sh [--seconds N] [--jobs J] [--binaries FOLDER] [--found FOLDER] [TARGET...]
#
#   --seconds N        of each target (60)
#   --jobs J           processes at a time (cores of this machine); more than targets: several work on each
#   --binaries FOLDER  where tests/fuzz/build.sh left the programs (build/fuzz)
#   --found FOLDER     receives inputs that crash or hang, and the grown corpora (a temporary one, kept when in need)
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
seconds=60 jobs=$(nproc) binaries=build/fuzz found= targets=()
while [ $# -gt 0 ]; do
  case $1 in
    --seconds) seconds=$2; shift 2 ;;
    --jobs) jobs=$2; shift 2 ;;
    --binaries) binaries=$2; shift 2 ;;
    --found) found=$2; shift 2 ;;
    --help | -h) sed -n '4,13s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 0 ;;
    -*) echo "run.sh: unknown option '$1'; see run.sh --help" >&2; exit 2 ;;
    *) targets+=("$1"); shift ;;
  esac
done
if [ ${#targets[@]} = 0 ]; then
  for program in "$binaries"/*_fuzz; do
    [ -f "$program" ] && targets+=("$(basename "$program" _fuzz)")
  done
fi
[ ${#targets[@]} -gt 0 ] || { echo "run.sh: no programs in '$binaries'; tests/fuzz/build.sh makes them" >&2; exit 2; }
keep=yes
[ -n "$found" ] || { keep=no; found=$(mktemp -d "${TEST_TMPDIR:-/tmp}/peal-fuzz-XXXXXX"); }
mkdir -p "$found"
workers=$((jobs / ${#targets[@]}))
[ "$workers" -gt 0 ] || workers=1

# fuzz TARGET WORKER: one process, to its end. Its corpus is shared with the target's other workers.
fuzz() {
  local target=$1 log="$found/$1.$2.log" options=()
  [ -f "$here/$target.dict" ] && options=("-dict=$here/$target.dict")
  # A target stops by itself after its time; one that hangs outside its inputs is ended.
  timeout $((seconds + 120)) "$binaries/${target}_fuzz" "$found/$target" "$here/corpus/$target" \
    -max_total_time="$seconds" -timeout=20 -rss_limit_mb=3000 -reload=1 -print_final_stats=1 -use_value_profile=1 \
    -artifact_prefix="$found/$target-" "${options[@]}" >"$log" 2>&1 </dev/null || echo $? >"$log.failed"
}

for target in "${targets[@]}"; do
  mkdir -p "$found/$target"
  for worker in $(seq "$workers"); do
    while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do wait -n || true; done
    fuzz "$target" "$worker" &
  done
done
wait

passed=0 failed=0
for target in "${targets[@]}"; do
  executions=$(sed -n 's/^stat::number_of_executed_units: *//p' "$found/$target".*.log | awk '{n += $1} END {print n + 0}')
  covered=$(sed -n 's/.* cov: \([0-9]*\) .*/\1/p' "$found/$target".*.log | sort -n | tail -1)
  crashes=$(find "$found" -maxdepth 1 -name "$target-*" | wc -l)
  ends=$(find "$found" -maxdepth 1 -name "$target.*.failed" | wc -l)
  printf '%-12s %12s executions, coverage %s, %s crashes\n' "$target" "$executions" "${covered:-0}" "$crashes"
  if [ "$ends" = 0 ] && [ "$crashes" = 0 ] && [ "$executions" -gt 0 ]; then
    passed=$((passed + 1))
    continue
  fi
  failed=$((failed + 1))
  keep=yes
  for mark in "$found/$target".*.failed; do
    [ -f "$mark" ] && echo "exit code $(cat "$mark"):" && tail -n 60 "${mark%.failed}"
  done
done
if [ $keep = yes ]; then echo "logs, inputs and grown corpora: $found"; else rm -rf "$found"; fi
echo "$passed passed, $failed failed"
[ $failed = 0 ]
