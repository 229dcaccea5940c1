#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# run_pes.sh <np> <program> [arguments]: as run_mp.sh, but by peal-run, which starts a job in a tenth of mpirun's time:
# for tests that start dozens. Shows PE 0's output, of the others what they said when the run fails. Fails if any PE
# fails, or after PEAL_MP_LIMIT seconds (default 240).
set -u

if [ "${1:-}" = --pe ]; then # a PE, started by peal-run below
  logs=$2
  shift 2
  [ "$PEAL_TCP_RANK" = 0 ] && exec "$@"
  exec "$@" >"$logs/pe$PEAL_TCP_RANK" 2>&1
fi

if [ $# -lt 2 ]; then
  echo "usage: $0 <np> <program> [arguments]" >&2
  exit 2
fi
np=$1
program=$(realpath -e "$2") || exit 2
shift 2
logs=$(mktemp -d /tmp/peal_pes.XXXXXX)
trap 'rm -rf "$logs"' EXIT
limit=${PEAL_MP_LIMIT:-240}
unset PEAL_MP_LIMIT # not a setting of peal, which refuses what it does not know
timeout --kill-after=10 "$limit" run/peal-run --no-prefix -n "$np" "$(realpath "$0")" --pe "$logs" "$program" "$@"
status=$?
if [ $status != 0 ]; then
  echo "peal-run -n $np $program: exit status $status" >&2
  tail -n +1 "$logs"/pe* >&2 2>/dev/null
fi
exit $status
