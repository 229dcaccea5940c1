#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Looks at every interleaving of the models in tests/model with spin: each must hold as it is, and must not with a piece
# taken out (a piece that nothing misses is not needed, or not modelled).
set -euo pipefail
models=$(realpath "${1:-tests/model}")
model=$models/send_queue.pml
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
command -v spin >/dev/null || { echo "spin is not installed: apt-get install spin" >&2; exit 1; }

# A verifier that looks at less than a million states runs for less time than gcc's optimizer takes.
optimize=-O1

# verify CHECK OPTIONS...: compiles the model with -D options and prints how many errors the verifier finds.
verify() {
  local check=$1
  shift
  rm -f pan* ./*.trail
  spin -a "$@" "$model" >spin.log 2>&1 || { cat spin.log >&2; return 1; }
  if [ "$check" = safety ]; then
    gcc "$optimize" -w -DSAFETY -DNOCLAIM -o pan pan.c
    ./pan -m1000000 >pan.log 2>&1
  else
    gcc "$optimize" -w -DNFAIR=4 -o pan pan.c
    ./pan -a -f -m1000000 >pan.log 2>&1
  fi
  grep -q 'max search depth too small\|out of memory' pan.log && { cat pan.log >&2; return 1; }
  sed -n 's/.*errors: \([0-9]*\).*/\1/p' pan.log
}

failed=0
expect() { # holds|fails CHECK OPTIONS...
  local wanted=$1 errors
  shift
  errors=$(verify "$@")
  local states
  states=$(sed -n 's/^ *\([0-9.e+]*\) states, stored.*/\1/p' pan.log | head -1)
  if { [ "$wanted" = holds ] && [ "$errors" = 0 ]; } || { [ "$wanted" = fails ] && [ "${errors:-0}" -gt 0 ]; }; then
    echo "ok: $* $wanted ($states states)"
  else
    echo "WRONG: $* should be: $wanted, but spin found ${errors:-no result} errors"
    failed=1
  fi
}

# Two lanes go round the queue twice; three lanes contend for who rings and for room; a batch stays open.
expect holds safety -DLANES=3 -DPOSTS=1 -DDEPTH=2 -DSURE_BELL
expect holds progress -DLANES=2 -DPOSTS=2 -DDEPTH=2
expect holds progress -DLANES=2 -DPOSTS=2 -DDEPTH=2 -DLATER -DSURE_BELL
optimize=-O0
expect fails safety -DLANES=2 -DPOSTS=2 -DDEPTH=2 -DNO_ROOM_CHECK
expect fails safety -DLANES=2 -DPOSTS=2 -DDEPTH=2 -DNO_ORDER
expect fails progress -DLANES=2 -DPOSTS=2 -DDEPTH=2 -DCLEAR_LATE -DSURE_BELL
expect fails safety -DLANES=2 -DPOSTS=2 -DDEPTH=4 -DQUIET_OF_PUBLISHED
expect fails progress -DLANES=2 -DPOSTS=2 -DDEPTH=4 -DNO_SECOND_LOOK
expect fails progress -DLANES=2 -DPOSTS=2 -DDEPTH=4 -DWANTED_LATE
expect fails progress -DLANES=2 -DPOSTS=2 -DDEPTH=4 -DREADY_LATE
expect fails progress -DLANES=2 -DPOSTS=2 -DDEPTH=4 -DNONE_LEFT
expect fails progress -DLANES=2 -DPOSTS=2 -DDEPTH=2 -DNO_SECOND_BELL
expect fails progress -DLANES=2 -DPOSTS=1 -DDEPTH=2 -DNO_RING

model=$models/marks.pml
expect holds safety -DLANES=2 -DPOSTS=3
expect holds safety -DLANES=3 -DPOSTS=1
expect holds progress -DLANES=2 -DPOSTS=2
expect fails safety -DLANES=2 -DPOSTS=2 -DNO_WAIT
expect fails safety -DLANES=2 -DPOSTS=2 -DNO_EXCHANGE
expect fails safety -DLANES=3 -DPOSTS=2 -DMARK_LATE
expect fails safety -DLANES=2 -DPOSTS=2 -DQUIET_OF_PUBLISHED
exit $failed
