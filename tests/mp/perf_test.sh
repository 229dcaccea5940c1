#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# perf_test.sh <run_mp.sh> <program>...: rows and tables of the benchmarks, their exit codes, what they say
# about mistakes; and that their verification finds what is wrong.
set -u

run=$1
perf=$(dirname "$2")
output=
failures=0

fail() {
  echo "FAILED: $1"
  echo "$output"
  failures=$((failures + 1))
}

# launch STATUS PES PROGRAM ARGUMENTS...: runs it; its exit status must be STATUS (0, or "bad" for any other).
launch() {
  local wanted=$1 pes=$2 program=$3 status=0
  shift 3
  output=$(PEAL_MP_LIMIT=300 "$run" "$pes" "$perf/$program" "$@" 2>&1) || status=$?
  [ $status = 124 ] && fail "$program $*: took too long"
  [ $status != 0 ] && status=bad
  [ $status = "$wanted" ] || fail "$program $* on $pes PEs: exit status $status, not $wanted"
}

says() { grep -qF -e "$1" <<<"$output" || fail "missing: $1"; }

# rows CONDITION: every line (but the comments that say how far a slow size is) is a JSON object of which the Python
# expression over `row` holds; there is at least one.
rows() {
  python3 -c '
import json, os, sys
rows = [json.loads(line) for line in sys.stdin if line.strip() and line[0] != "#"]
needed = {"op", "scope", "bytes", "pes", "qps", "blocks", "threads", "transport", "nic", "iters", "operations", "seconds",
          "checked", "errors", "verified", "repeats", "date", "version", "host", "cpu", "gpu"}
pairs = {"pairs", "bidirectional", "mops", "gbytes_per_s", "gbps"}
all_pes = {"usec", "algbw_gbytes_per_s", "busbw_gbytes_per_s"}
for row in rows:
    fields = needed | (all_pes if row["benchmark"] == "collectives" else pairs)
    assert fields <= row.keys(), fields - row.keys()
    transport = os.environ.get("PEAL_TRANSPORT", "ibgda")
    assert row["transport"] == transport and row["nic"] == "softnic-cpu", row
    assert eval("(" + sys.argv[1] + ")"), (sys.argv[1], row)  # of several lines, too
assert rows, "no rows"
' "$1" <<<"$output" || fail "rows: $1"
}

clean='row["verified"] is True and row["errors"] == 0 and row["mops"] > 0 and row["checked"] >= row["operations"] > 0'
short=(--iters 40 --warmup 5 --json)

# Every operation, in every scope it has, at a size that is not a power of two where it may be.
for op in put get put_signal; do
  for scope in thread warp block; do
    launch 0 2 message_rate --op $op --scope $scope --sizes 8,100,4K "${short[@]}"
    rows "$clean and row['op'] == '$op' and row['scope'] == '$scope' and row['pes'] == 2"
    launch 0 2 latency --op $op --scope $scope --sizes 8,100 "${short[@]}"
    rows "$clean and 0 < row['usec_min'] <= row['usec_median'] <= row['usec_p99'] <= row['usec_p99_9']"
  done
  launch 0 2 bandwidth --op $op --sizes 4K,64K --window 4 "${short[@]}"
  rows "$clean and row['scope'] == 'block' and row['gbytes_per_s'] > 0"
done
# Where a CPU thread posts for the kernels.
export PEAL_TRANSPORT=proxy
launch 0 2 message_rate --op put --sizes 8 "${short[@]}"
rows "$clean"
launch 0 2 message_rate --op atomic_add --sizes 4,8 "${short[@]}"
rows "$clean"
# What its bandwidth is set beside: no NIC takes part.
export PEAL_TRANSPORT=p2p
launch 0 2 bandwidth --op memcpy --sizes 4K,64K "${short[@]}"
says '"op":"memcpy"'
says '"verified":true'
unset PEAL_TRANSPORT
launch bad 2 bandwidth --op memcpy --sizes 4K
says "--op memcpy: the peer's memory is mapped with PEAL_TRANSPORT=p2p only"
for op in p g; do
  launch 0 2 message_rate --op $op --sizes 1:8 "${short[@]}"
  rows "$clean"
  launch 0 2 latency --op $op --sizes 4,8 "${short[@]}"
  rows "$clean and row['usec'] > 0"
done
launch 0 2 message_rate --op atomic_add --sizes 4,8 "${short[@]}"
rows "$clean"
launch 0 2 latency --op atomic_add --sizes 4,8 "${short[@]}"
rows "$clean and row['usec'] > 0"

# Any number of PEs, and queues of one's own.
launch 0 1 message_rate "${short[@]}"
rows "$clean and row['pes'] == 1 and row['pairs'] == 1 and row['operations'] == 40 * 2 * 32"
launch 0 1 latency "${short[@]}" --sizes 8
rows "$clean"
launch 0 3 message_rate "${short[@]}"
rows "$clean and row['pes'] == 3 and row['pairs'] == 1"
launch 0 4 message_rate --pattern halves --qps 2 --depth 256 --blocks 3 --threads 48 "${short[@]}"
rows "$clean and row['pairs'] == 2 and row['qps'] == 2 and row['operations'] == 2 * 40 * 3 * 48"
launch 0 4 latency --pattern halves "${short[@]}" --sizes 8
rows "$clean and row['pairs'] == 2 and row['operations'] == 80"

# Repeats: the row is of one of them, its data and errors are of all. Values with commas between, and a reader's view.
launch 0 2 message_rate "${short[@]}" --repeats 3
rows "$clean and row['repeats'] == 3 and row['operations'] == 40 * 2 * 32 and row['checked'] == 3 * 45 * 2 * 32 and
  row['mops_repeats_min'] <= row['mops_repeats_median'] == row['mops'] <= row['mops_repeats_max']"
launch 0 2 latency "${short[@]}" --sizes 8 --repeats 2
rows "$clean and row['usec_median_repeats_min'] <= row['usec_median'] <= row['usec_median_repeats_max']"
launch 0 2 bandwidth --sizes 4K,64K --iters 40 --warmup 5 --csv --repeats 2
values=$(python3 -c '
import csv, datetime, json, sys
rows = list(csv.DictReader(line for line in sys.stdin if line[0] != "#"))
assert [row["bytes"] for row in rows] == ["4096", "65536"], rows
for row in rows:
    assert None not in row and None not in row.values() and row["host"] and row["transport"] and row["nic"], row
    assert row["verified"] == "true" and float(row["gbytes_per_s_repeats_min"]) > 0 and row["gpu"] == "", row
    assert datetime.datetime.strptime(row["date"], "%Y-%m-%dT%H:%M:%SZ").year > 2020, row
print(",".join(rows[0]))' <<<"$output") || fail "--csv"
launch 0 2 bandwidth --sizes 4K "${short[@]}"
rows "$clean and ','.join(row) == '$values'"
launch 0 2 message_rate --sizes 8 --iters 40 --repeats 2
says 'Min of repeats   Max of repeats'

# Both PEs of a pair at once: twice the operations, and each checks what the other one sent, or what it got itself.
for op in put get p g atomic_add put_signal; do
  launch 0 2 message_rate --op $op --sizes 8 --bidirectional "${short[@]}"
  rows "$clean and row['bidirectional'] is True and row['operations'] == 2 * 40 * 2 * 32 and
    row['checked'] == 2 * 45 * 2 * 32"
  launch bad 2 message_rate --op $op --sizes 8 --iters 10 --warmup 0 --bidirectional --spoil data
  grep -q '^verified: [0-9]* operations, [1-9][0-9]* errors$' <<<"$output" || fail "--bidirectional --op $op: unnoticed"
done
launch 0 4 bandwidth --op get --sizes 4K --bidirectional --pattern halves "${short[@]}"
rows "$clean and row['pairs'] == 2 and row['operations'] == 4 * 40 * row['blocks']"
launch bad 1 bandwidth --bidirectional
says "--bidirectional: there is one PE; mpirun -np 2"

# Collective calls, by every caller; 1 and 3 PEs. An element of every PE's result is compared twice: warm-up, and timed.
together='row["verified"] is True and row["errors"] == 0 and row["usec"] > 0 and row["checked"] > 0'
for scope in block stream host; do
  for op in all_reduce all_gather broadcast all_to_all barrier; do
    launch 0 2 collectives --op $op --scope $scope --sizes 4,1K --iters 10 --warmup 2 --json
    rows "$together and row['op'] == '$op' and row['scope'] == '$scope' and row['operations'] == 10 and
      row['blocks'] == ('$scope' == 'block')"
  done
  launch bad 2 collectives --scope $scope --op barrier --iters 3 --spoil data
  says ' elements, 4 errors'
done
launch 0 3 collectives --op all_to_all --sizes 100 --iters 10 --warmup 0 --repeats 2 --json
rows "$together and row['checked'] == 2 * 3 * 3 * 25 and row['usec_repeats_min'] <= row['usec'] <= row['usec_repeats_max']"
launch 0 1 collectives --sizes 8 --iters 10 --csv
says 'collectives,all_reduce,block,8,1,32,1,10,ibgda,softnic-cpu'
for op in all_reduce all_gather broadcast all_to_all; do
  launch bad 2 collectives --op $op --sizes 64 --iters 3 --warmup 0 --spoil data
  says ' elements, 2 errors' # one at each PE
done
launch 0 2 collectives --sizes 8 --iters 10 --scope stream
says '# peal collectives: all_reduce, 2 PEs, stream scope, '
says '# Size         Time (us)             alg GB/s      bus GB/s  Operations    Errors'

# The comparison's side: sums of addends that all differ; between two PEs but for barriers.
launch 0 2 compare/peal_side --ops add,add_same,inc_quiet,fetch_add --iterations 2 --repeats 2 --span 4096
launch 0 3 compare/peal_side --ops barrier_all --scope thread --iterations 2 --repeats 2
launch bad 3 compare/peal_side --ops put
says "put is between two PEs, these are 3; mpirun -np 2, or --ops barrier_all"

# The table.
launch 0 2 message_rate --sizes 8,64 --iters 100
says '# peal message rate: put, 2 PEs (1 pair), thread scope, 2 blocks x 32 threads, '
says '# transport ibgda, nic softnic-cpu'
says '# Size        Messages/s'
# 64 threads, 2 sizes, 100 iterations and 64 of warm-up.
says "verified: $((64 * 2 * 164)) operations, 0 errors"

# The verification must find one flipped bit, of every operation.
for op in put get p g atomic_add put_signal; do
  for program in message_rate latency; do
    launch bad 2 $program --op $op --sizes 8 --iters 10 --warmup 0 --spoil data
    grep -q '^verified: [0-9]* operations, [1-9][0-9]* errors$' <<<"$output" || fail "$program --op $op: unnoticed"
  done
done
launch bad 2 message_rate --op put_signal --sizes 8 --iters 10 --spoil signal
says 'operations failed or left wrong data'
launch bad 2 bandwidth --sizes 4K --iters 10 --spoil data --json
says '"verified":false'

# Mistakes: what was wrong and what would be right, once, with nothing measured.
mistake() {
  local wanted=$1 program=$2
  shift 2
  launch bad 2 "$program" "$@"
  says "$wanted"
  [ "$(grep -cF -e "$wanted" <<<"$output")" = 1 ] || fail "$program $*: said more than once"
}
mistake "--op: 'send' is unknown; one of put, get, p, g, atomic_add, put_signal" message_rate --op send
mistake "--op: 'p' is unknown; one of put, get, put_signal, memcpy" bandwidth --op p
mistake "--scope: 'grid' is unknown; one of thread, warp, block" latency --scope grid
mistake "--scope warp: p is an operation of one thread; use --scope thread" message_rate --op p --scope warp
mistake "'8q' is not a size from 1 to 1G" message_rate --sizes 8q
mistake "'64:8' is not a range of sizes" message_rate --sizes 64:8
mistake "--sizes 16: g moves one value; use 1, 2, 4 or 8" message_rate --op g --sizes 16
mistake "--sizes 2: atomic_add works on words of 4 or 8 bytes" message_rate --op atomic_add --sizes 2
mistake "--depth 300: a queue's depth is a power of two, such as 512" message_rate --depth 300
mistake "message_rate --help" message_rate --threads 2000
mistake "--repeats" message_rate --repeats 0
mistake "--repeats" latency --repeats many
mistake "rows are one or the other; leave out --json" bandwidth --json --csv
mistake "--csv" bandwidth --csv=maybe
mistake "--bidirectional" latency --bidirectional
mistake "--op: 'scan' is unknown; one of all_reduce, all_gather, broadcast, all_to_all, barrier" collectives --op scan
mistake "--scope: 'warp' is unknown; one of block, stream, host" collectives --scope warp
mistake "--sizes 10: all_gather works on floats; use multiples of 4" collectives --op all_gather --sizes 8,10
mistake "--bidirectional" collectives --bidirectional
# What only the runtime can know, every PE says.
launch bad 2 message_rate --sizes 1M --blocks 64
says PEAL_HEAP_SIZE

launch 0 2 message_rate --help
says '--op NAME=put'
[ "$(grep -c '^Usage:' <<<"$output")" = 1 ] || fail "--help spoke more than once"

exit $((failures != 0))
