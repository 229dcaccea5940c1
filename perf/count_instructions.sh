#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# count_instructions.sh <post_benchmark> [max]: instructions of one put on an exclusive queue, from reserve to ring, counted by
# callgrind. Fails when they are more than max (default 60).
set -euo pipefail
benchmark=$1
max=${2:-60}
posts=1000000
profile=$(mktemp)
trap 'rm -f "$profile"' EXIT
for function in post_put post_inline; do
  valgrind --quiet --tool=callgrind --callgrind-out-file="$profile" --toggle-collect="*$function<(peal::Reach)0>*" \
    "$benchmark" --benchmark_filter='exclusive' >/dev/null 2>&1
  total=$(awk '/^(summary|totals):/ {print $2; exit}' "$profile")
  each=$((total / posts))
  echo "$function: $each instructions (at most $max)"
  [ "$each" -gt 0 ] && [ "$each" -le "$max" ] || exit 1
done
