# SPDX-License-Identifier: Apache-2.0
#
# For tests that run commands: to be sourced. $work is a folder of the test's own.
failures=0

fail() {
  echo "$*"
  failures=$((failures + 1))
}
# expect TEXT COMMAND...: ends well, and TEXT is in its output.
expect() {
  local text=$1
  shift
  if ! "$@" >"$work/log" 2>&1 || { [ -n "$text" ] && ! grep -qF -- "$text" "$work/log"; }; then
    fail "$*: no '$text' in:"
    tail -n 20 "$work/log"
  fi
}
# refuse TEXT COMMAND...: fails, and TEXT is in its output.
refuse() {
  local text=$1
  shift
  if "$@" >"$work/log" 2>&1 || ! tr -s '\n ' ' ' <"$work/log" | grep -qF -- "$text"; then
    fail "$*: is not refused with '$text':"
    tail -n 20 "$work/log"
  fi
}

# finish: the test's exit code.
finish() {
  [ $failures = 0 ] && echo "all of them work"
  exit $((failures != 0))
}
