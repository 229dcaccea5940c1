# SPDX-License-Identifier: Apache-2.0
#
# For tests that start jobs by peal-run, $run: to be sourced, in a folder of the test's own.
failures=0

fail() {
  echo "$*"
  failures=$((failures + 1))
}
# job <exit code> <arguments of peal-run>: output in out and err; more than 200 s are a hang.
job() {
  local wanted=$1 code
  shift
  timeout --kill-after=5 200 "$run" "$@" >out 2>err
  code=$?
  [ $code = "$wanted" ] || fail "peal-run $*: exit code $code, not $wanted; out: $(cat out) err: $(cat err)"
}
says() { grep -qF -- "$1" err || fail "stderr lacks '$1': $(cat err)"; }
