#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# run_mp.sh <np> <program> [arguments]: runs a test program as np ranks under mpirun, on this machine only; or under the
# peal-run that PEAL_MP_BY names, which starts a job in a tenth of mpirun's time, for tests that start dozens.
# Shows rank 0; the other ranks' output only when the run fails. Fails if any rank fails, or after PEAL_MP_LIMIT
# seconds (default 240).
set -u

if [ "${1:-}" = --rank ]; then # a rank, started below
  logs=$2
  shift 2
  unset TEST_PREMATURE_EXIT_FILE # one for all ranks: the first to end would remove it
  rank=${OMPI_COMM_WORLD_RANK:-${PEAL_TCP_RANK:-}}
  [ "$rank" = 0 ] && exec "$@"
  unset XML_OUTPUT_FILE # rank 0's report is the run's
  exec "$@" >"$logs/rank$rank" 2>&1
fi

if [ $# -lt 2 ]; then
  echo "usage: $0 <np> <program> [arguments]" >&2
  exit 2
fi
np=$1
program=$(realpath -e "$2") || exit 2
shift 2
if [ -n "${PEAL_MP_BY:-}" ]; then
  start=("$PEAL_MP_BY" -n "$np" --no-prefix)
else
  command -v mpirun >/dev/null || { echo "no mpirun: install openmpi-bin" >&2; exit 2; }
  start=(mpirun -np "$np" --oversubscribe --allow-run-as-root --bind-to none
    --mca btl self,vader,tcp --mca pml ob1 --mca btl_tcp_if_include lo --mca oob_tcp_if_include lo
    --mca btl_vader_single_copy_mechanism none --mca btl_base_warn_component_unused 0
    --mca plm isolated --mca mpi_yield_when_idle 1)
fi

logs=$(mktemp -d /tmp/peal_mp.XXXXXX)
trap 'rm -rf "$logs"' EXIT
# Open MPI puts sockets under TMPDIR, whose names must stay short, and wants a HOME.
export TMPDIR="$logs" HOME="${HOME:-/tmp}"
limit=${PEAL_MP_LIMIT:-240}
unset PEAL_MP_LIMIT PEAL_MP_BY # not settings of peal, which refuses what it does not know
timeout --kill-after=10 "$limit" "${start[@]}" bash "$0" --rank "$logs" "$program" "$@"
status=$?
if [ $status != 0 ]; then
  echo "${start[*]:0:3} $program: exit status $status" >&2
  # Rank 0 may have passed: bazel then writes a report of the failure itself.
  [ -n "${XML_OUTPUT_FILE:-}" ] && ! grep -q '<failure' "$XML_OUTPUT_FILE" 2>/dev/null && rm -f "$XML_OUTPUT_FILE"
  for log in "$logs"/rank*; do
    [ -f "$log" ] || continue
    echo "--- ${log##*/}" >&2
    cat "$log" >&2
  done
fi
exit $status
