#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# hostile_test.sh <peal-run> <hostile>: jobs of which a PE leaves, forks, throws or drops what it should have looked at
# (hostile.cc). Each ended by a crash, a wait of a minute, a wrong answer or no word at all. docs/errors.md has the table.
set -u
run=$1
hostile=$2
failures=0
jobs=0
log=$(mktemp) || exit 2
trap 'rm -f "$log"' EXIT
keep=--keep-going
# PEAL_TIMEOUT and PEAL_BOOTSTRAP_TIMEOUT of a job; of several the next where the job does not do what it should. Where
# one is to pass it is short, and on a busy machine a PE may need more than that to start.
limits=60s,60s

fail() {
  echo "$*: $(cat "$log")"
  failures=$((failures + 1))
}

# job EXIT-CODES PES TRANSPORT WAY [SENTENCE...]: EXIT-CODES and each SENTENCE, which is said, are
# patterns of grep -E. "silent": nothing is said. The job's code is that of the PE whose failure peal-run sees first.
job() {
  local want=$1 pes=$2 way=$4 limit wrong
  export PEAL_TRANSPORT=$3
  shift 4
  jobs=$((jobs + 1))
  for limit in $limits; do
    wrong=$(PEAL_TIMEOUT=${limit%,*} PEAL_BOOTSTRAP_TIMEOUT=${limit#*,} once "$@")
    [ -n "$wrong" ] || return
  done
  fail "$way on $pes PEs by $PEAL_TRANSPORT with $limit: $wrong"
}
once() { # prints what is wrong
  local code sentence began=$SECONDS
  timeout --kill-after=5 250 "$run" $keep -n "$pes" "$hostile" "$way" >"$log" 2>&1
  code=$?
  [[ $code =~ ^($want)$ ]] || echo "exit code $code, not $want"
  for sentence in "$@"; do
    if [ "$sentence" = silent ]; then
      [ -s "$log" ] && echo "it speaks"
      continue
    fi
    # A crash whose names are not found within 5 s is told without them.
    if [[ $way = crash_wait && $((SECONDS - began)) -ge 5 ]]; then
      sentence=${sentence%: .\*write_to_null}
      sentence=${sentence/write_to_null/[^ ,]+}
    fi
    if ! grep -qE "$sentence" "$log"; then
      echo "it does not say '$sentence'"
    fi
  done
}

# Leaving in order.
for transport in p2p ibgda proxy; do
  for way in return_c return_cxx return_nvshmem; do
    job 0 2 $transport $way silent
  done
done
limits='60s,1s 60s,5s 60s,25s' job 0 3 p2p slow_end 'waits for PE 0 \(process [0-9]*\), which works on' 'PE 2: finalize answered 0'
job 0 2 ibgda end_while_running 'PE 0: finalize answered 0' 'PE 1: finalize answered 0'
job 0 2 p2p end_while_running 'PE 0: finalize answered 0' 'PE 1: finalize answered 0'
job 0 2 p2p pthread_exit silent
job 0 2 p2p destructor 'late put: peal_put: this PE has ended'

limits='60s,1s 60s,5s 60s,25s' keep='' job 5 2 p2p stop_end 'PE 1: finalize answered -1: peal_finalize: end of the job: .*did not arrive' 'PE 0 .* is stopped: kill -CONT'
limits='60s,1s 60s,5s 60s,25s' keep='' job 5 2 p2p stop_malloc 'PE 1: malloc answered -1: peal_malloc: malloc #[0-9]*: rank 0 .*; PE 0 .* is stopped: kill -CONT'

# Leaving while the others meet, wait or end: they hear who and how.
left3='called exit\(3\), or returned 3 from main\(\)'
for transport in p2p ibgda proxy; do
  job "3|5" 3 $transport exit3_meet "PE 1: barrier answered -1: .*rank 0 of 3 $left3" "PE 2: barrier .*$left3"
  job "3|5" 3 $transport exit3_wait "PE 1: wait answered -1: .*PE 0 ended before the job did: it $left3" "PE 2: wait .*$left3"
done
# Who left because of another one is not named, though its process has ended first.
job "3|5" 3 p2p exit3_last "PE 2: wait answered -1: .*PE 0 ended before the job did: it $left3"
job "3|5" 3 p2p exit3_end "PE 2: finalize answered -1: .*rank 0 of 3 $left3"
job 5 2 p2p exit0_wait 'PE 1: wait answered -1: .*PE 0 called exit\(0\), or returned 0 from main\(\), without finalize'
job "5|6" 2 p2p quick_exit_wait 'PE 1: wait answered -1: .*it called quick_exit\(\)'
job "137|5" 2 ibgda kill_wait 'PE 1: wait answered -1: .*PE 0 ended before the job did'
job "137|5" 3 p2p kill_meet 'PE 2: barrier answered -1: .*rank 0 of 3 died or disconnected'
job "134|5" 2 p2p abort_wait 'PE 1: wait answered -1: .*PE 0 ended before the job did'
job "139|5" 2 p2p crash_wait 'PE 0: kernel write_to_null, block \(1,0,0\), thread \(32,0,0\): segmentation fault' \
  'PE 1: wait answered -1: .*it was ended by signal 11 \(SIGSEGV\): .*write_to_null'
job "134|5" 2 p2p terminate_wait 'PE 1: wait answered -1: .*it was terminated by std::terminate\(\): nobody catches this'
job 5 2 p2p finalize_meet 'PE 1: barrier answered -1: .*rank 0 of 2 has left the group' 'PE 0: finalize answered -1'
limits='2s,60s 10s,60s 50s,60s' job 5 2 p2p finalize_wait 'PE 0 has finalized, while a kernel of this PE waits' 'PE 1: wait answered -1'

# Exceptions, with their text, at once.
thrown='left by an exception: the disk is full'
job 1 3 p2p throw_meet '^\[0\] peal: the disk is full' "^\[1\] peal: .* 0 .*$thrown"
job 1 3 ibgda throw_wait '^\[0\] peal: the disk is full' "PE 0 \(process [0-9]*\) has ended before the job did: it $thrown"
job 1 2 p2p throw_end "^\[1\] peal.* 0 .*$thrown"
job "4|5" 2 p2p caught_elsewhere 'rank 0 of 2 left by an exception'

# Failures that nobody asked for.
lost='nobody has asked for this failure'
job 1 2 p2p drop_wait "$lost.*kernel wait_for_nine.*, block 0, thread 0, .*wait_until"
job 1 2 ibgda drop_put 'kernel put_nowhere' "$lost"
job 5 2 p2p drop_c "PE 0: finalize answered -1: .*$lost.*put_nowhere"
job 1 1 p2p wait_again 'kernel: kernel wait_again_and_again'
PEAL_REPORT_FAILURES=off job 0 2 p2p drop_wait silent

# Children of fork().
for transport in p2p ibgda; do
  for way in fork_exit fork_put fork_barrier; do
    job 0 2 $transport $way
  done
done
for way in fork_barrier_all fork_malloc fork_finalize fork_init fork_kernels; do
  job 0 2 p2p $way
done

job "137|5" 3 p2p fork_outlives 'PE 1: barrier answered -1: .*rank 0 of 3 died or disconnected' 'PE 2: barrier answered -1'

echo "$jobs jobs"
exit $((failures != 0))
