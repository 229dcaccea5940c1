#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# peal_run_test.sh <peal-run> <fake_ssh.sh>: how jobs of peal-run begin, talk and end. PEs are shells that say what they
# see. Where a PE must not end by itself it reads from a pipe that nobody writes to; that processes are gone tells a pipe
# that they held open.
set -u
run=$(realpath "$1")
ssh=$(realpath "$2")
jobs=$(realpath "$(dirname "$0")/jobs.sh")
folder=$(mktemp -d) || exit 2
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 2
unset TEST_PREMATURE_EXIT_FILE
export block="$folder/block" # `read <>$block` waits for ever
mkfifo "$block"
# shellcheck source=jobs.sh
source "$jobs"
prints() { grep -qxF -- "$1" out || fail "stdout lacks the line '$1': $(cat out)"; }

# What a PE is told, and where its words go.
job 0 -n 3 sh -c 'echo "$PEAL_TCP_RANK of $PEAL_TCP_SIZE, id of ${#PEAL_TCP_ID}"; echo "warn $PEAL_TCP_RANK" >&2'
for rank in 0 1 2; do
  prints "[$rank] $rank of 3, id of 44"
  says "[$rank] warn $rank"
done
[ "$(wc -l <out)" = 3 ] && [ "$(wc -l <err)" = 3 ] || fail "more than was written"
job 0 -n 2 --no-prefix sh -c 'echo "$PEAL_TCP_RANK"'
[ "$(sort out | tr '\n' ' ')" = "0 1 " ] || fail "--no-prefix: $(cat out)"
job 0 -n 2 pwd
prints "[1] $folder"
job 0 sh -c 'echo "$PEAL_TCP_SIZE"'
prints "[0] 1"
job 0 -n 2 -x COLOR=red -x PEAL_LOG=info sh -c 'echo "$COLOR $PEAL_LOG"'
prints "[1] red info"
job 0 -n 2 sh -c 'echo "$SIMT_DEVICES"'
prints "[0] 2"
job 0 -n 2 -x SIMT_DEVICES=5 sh -c 'echo "$SIMT_DEVICES"'
prints "[1] 5"
SIMT_DEVICES=4 job 0 -n 2 sh -c 'echo "$SIMT_DEVICES"'
prints "[1] 4"
job 0 -n 2 sh -c 'echo -n "no end of line"'
prints "[0] no end of line"
# An argument goes through as it is.
job 0 -n 1 printf '%s|' --hosts 'a b' "it's" -n ''
prints "[0] --hosts|a b|it's|-n||"

# Standard input is PE 0's, the others have none.
printf 'first\nsecond\n' >in
timeout 200 "$run" -n 2 cat <in >out 2>err || fail "cat: $(cat err)"
[ "$(cat out)" = $'[0] first\n[0] second' ] || fail "standard input: $(cat out)"

# Lines stay whole: pieces of lines of two PEs that wait for each other between them.
mkfifo go0 go1
job 0 -n 2 bash -c 'exec 5<>go0 6<>go1
  for i in $(seq 50); do
    if [ $PEAL_TCP_RANK = 0 ]; then printf "aaaa"; echo >&6; read -r -u 5; echo "aaaa"
    else read -r -u 6; printf "bbbb"; echo >&5; echo "bbbb"; fi
  done'
[ "$(sort out | uniq -c | tr -s ' ')" = $' 50 [0] aaaaaaaa\n 50 [1] bbbbbbbb' ] || fail "torn: $(sort out | uniq -c)"

# All that was written comes, however it ends, and a reader that is slow loses nothing.
job 3 -n 2 sh -c 'seq 100000; exit 3'
first=$(grep -o 'PE [01] of 2' err) # the other may have been ended early
[ "$(grep -c "^\[${first:3:1}\] " out)" = 100000 ] || fail "$first wrote 100000 lines, of them came: $(wc -l <out)"
timeout 200 "$run" -n 2 seq 100000 2>err | (read -r; cat) | wc -l >out
[ "$(cat out)" = 199999 ] || fail "$(cat out) lines through a pipe"
# A reader that goes away ends the job.
timeout 200 "$run" -n 2 yes 2>err | head -n 1 >out
[ "${PIPESTATUS[0]}" = 141 ] || fail "| head: exit code ${PIPESTATUS[0]}"

# Without standard descriptors of its own: what the job is made of took their place, and it never ended.
for closed in '<&-' '>&-' '2>&-' '<&- >&- 2>&-'; do
  eval "timeout --kill-after=5 200 '$run' -n 2 sh -c 'cat; echo out; echo err >&2' >out 2>err </dev/null $closed"
  code=$?
  [ $code = 0 ] || fail "peal-run $closed: exit code $code; out: $(cat out) err: $(cat err)"
  case $closed in *' >&-'* | '>&-') ;; *) grep -q '] out$' out || fail "peal-run $closed: no output: $(cat out)" ;; esac
  case $closed in *2*) ;; *) says '] err' ;; esac
done

# What cannot be written is said, and ends the job. That of peal-run itself too.
timeout 200 "$run" -n 2 yes >/dev/full 2>err
[ $? = 1 ] || fail ">/dev/full: exit code not 1"
says "peal-run: standard output: No space left on device; ending the job"
"$run" --help >/dev/full 2>err && fail "--help >/dev/full ended with 0"

# What a program prints comes when a line is whole, though it goes on or hangs: cut fills a buffer where it writes to a
# pipe. Bytes come as they are.
mkfifo lines shown
timeout 200 "$run" -n 1 cut -c1- <lines >shown 2>err &
exec 5>lines 6<shown
echo hello >&5
read -r -t 100 -u 6 line || fail "a line stays in the buffer of a program that hangs"
[ "$line" = "[0] hello" ] || fail "a line of a program that goes on: $line"
exec 5>&- 6<&-
wait $!
job 0 -n 1 sh -c 'test -t 1 && ! test -t 2 && printf "a\r\tb\004\003\n\377\n"'
printf '[0] a\r\tb\004\003\n[0] \377\n' | cmp -s - out || fail "bytes are not as they were: $(od -c out)"
job 0 -np 1 --no-pty sh -c 'test -t 1 || echo pipe'
prints "[0] pipe"

# Wherever it is started: without SIGCHLD, with a small stack, in a folder that is gone.
code=0
timeout 200 env --ignore-signal=CHLD "$run" -n 2 grep SigIgn /proc/self/status >out 2>err || code=$?
[ $code = 0 ] || fail "SIGCHLD ignored: exit code $code; $(cat err)"
[ $((0x$(sed -n 's/.*SigIgn:\s*//p' out | head -n 1) >> 16 & 1)) = 0 ] || fail "a PE ignores SIGCHLD: $(cat out)"
(ulimit -s 64 && timeout 200 "$run" -n 2 true >out 2>err) || fail "a stack of 64 KiB: $? $(cat err)"
mkdir gone
(cd gone && rmdir ../gone && timeout 200 "$run" -n 2 readlink /proc/self/cwd >"$folder/out" 2>"$folder/err") || fail "a deleted folder: $(cat err)"
prints "[1] $folder/gone (deleted)"
mkdir gone
(cd gone && rmdir ../gone && timeout 200 "$run" --hosts a:1 true >"$folder/out" 2>"$folder/err") && fail "a deleted folder of other hosts"
says "the current folder has no path any more"

# The first failure ends all and is the exit code, in words.
job 7 -n 3 sh -c '[ $PEAL_TCP_RANK = 1 ] && exit 7; read x <>$block'
says "peal-run: PE 1 of 3 (this machine, pid "
says "exited with code 7; ending the other 2"
job 137 -n 2 sh -c '[ $PEAL_TCP_RANK = 0 ] && kill -9 $$; read x <>$block'
says "PE 0 of 2 (this machine, pid "
says "was killed by signal 9 (Killed); ending the other 1"
[ "$(wc -l <err)" = 1 ] || fail "more than one line: $(cat err)"
# One that ends well does not end the others.
job 0 -n 2 bash -c 'if [ $PEAL_TCP_RANK = 0 ]; then exec 5>&-; exit 0; else echo later; fi'
prints "[1] later"
# Nobody hears SIGTERM: SIGKILL follows. Nor does a child of a PE stay behind.
mkfifo alive
cat alive >witness &
witness=$!
job 5 -n 2 --grace 100ms bash -c 'trap "" TERM; exec 7>alive
  [ $PEAL_TCP_RANK = 0 ] && exit 5
  (read x <>$block) & read x <>$block'
wait_gone() { # <pid> <who>
  timeout 100 tail --pid="$1" -f /dev/null && return
  fail "$2 still runs"
  kill -9 "$1"
}
wait_gone $witness "a process of a PE"
# SIGTERM is heard first.
job 5 -n 2 --grace 60s bash -c 'trap "echo asked to end; exit 0" TERM
  if [ $PEAL_TCP_RANK = 1 ]; then read x <go0; exit 5; fi
  echo >go0; read x <>$block & wait'
prints "[0] asked to end"
job 9 -n 2 --keep-going bash -c 'if [ $PEAL_TCP_RANK = 1 ]; then exit 9; fi; echo goes on'
prints "[0] goes on"
# A descendant that keeps the output open does not hold the job.
job 0 -n 1 --grace 100ms bash -c '(trap "" TERM; read x <>$block) & echo done'
prints "[0] done"

# Signals. ready: the PEs' shells say when they can take one.
mkfifo ready
signalled() { # <signal> <exit code> <script>
  local code
  env --default-signal=INT "$run" -n 2 --grace 60s bash -c "$3" >out 2>err & # bash has what it starts so ignore SIGINT
  local launcher=$!
  exec 8<ready
  read -r -u 8 && read -r -u 8 || fail "SIG$1: the PEs did not start"
  exec 8<&-
  kill -"$1" $launcher
  wait_gone $launcher "peal-run after SIG$1"
  wait $launcher
  code=$?
  [ $code = "$2" ] || fail "SIG$1: exit code $code, not $2; $(cat out err)"
}
# Both hold the pipe open until both have written to it.
said='exec 9<>ready; echo ready >&9'
signalled TERM 143 "$said; read x <>\$block"
signalled INT 130 "trap 'trap - INT; kill -INT \$\$' INT; $said; read x <>\$block & wait"
signalled TERM 0 "trap 'echo saved; exit 0' TERM; $said; read x <>\$block & wait"
prints "[0] saved"
prints "[1] saved"
# Who is asked twice ends, though the PEs do not.
env --default-signal=INT "$run" -n 2 --grace 100ms bash -c "trap 'echo heard >&9' TERM
  $said; while :; do read x <>\$block & wait; done" >out 2>err &
launcher=$!
exec 8<ready
read -r -u 8 && read -r -u 8
kill -TERM $launcher
read -r -u 8 && read -r -u 8
exec 8<&-
kill -INT $launcher
wait_gone $launcher "peal-run after SIGTERM and SIGINT"
wait $launcher
[ $? = 130 ] || fail "SIGINT after SIGTERM: $(cat err)"
# An agent that somebody has stopped goes on to hear it.
for number in INT TERM; do
  env --default-signal=INT "$run" -n 2 bash -c "$said; read x <>\$block" >out 2>err &
  launcher=$!
  exec 8<ready
  read -r -u 8 && read -r -u 8
  exec 8<&-
  read -r agent <"/proc/$launcher/task/$launcher/children"
  kill -STOP "$agent"
  timeout 100 sh -c "until grep -q '^State:.T' /proc/$agent/status; do :; done" || fail "$agent does not stop"
  kill -$number $launcher
  wait_gone $launcher "peal-run with a stopped agent, after SIG$number"
  wait $launcher
  [ $? -gt 128 ] || fail "SIG$number with a stopped agent: $(cat err)"
done
signalled USR1 0 "trap 'exit 0' USR1; $said; read x <>\$block & wait"

# A launcher that is killed takes everything with it.
killed_launcher() {
  cat alive >witness &
  local witness=$!
  "$run" "$@" >out 2>err &
  local launcher=$!
  exec 8<ready
  read -r -u 8
  exec 8<&-
  kill -9 $launcher
  wait $launcher 2>/dev/null
  wait_gone $witness "a PE of a launcher that was killed: $*"
}
killed_launcher -n 3 bash -c "exec 7>alive; $said; (read x <>\$block) & read x <>\$block"

# Hosts, by a remote shell: places, folder and PEAL_* arrive, the rest of the environment does not.
remote=(--rsh "$ssh -q")
export PEAL_LOG=debug SECRET=no
job 0 "${remote[@]}" --hosts a:2,b:1 sh -c 'echo "$FAKE_SSH_HOST $PEAL_TCP_RANK/$PEAL_TCP_SIZE $PWD $PEAL_LOG ${SECRET:-yes}"'
unset PEAL_LOG
prints "[0] a 0/3 $folder debug yes"
prints "[1] a 1/3 $folder debug yes"
prints "[2] b 2/3 $folder debug yes"
job 0 "${remote[@]}" --hosts a:2,b:2 -n 3 -x SECRET sh -c 'echo "$FAKE_SSH_HOST $SECRET"'
prints "[2] b no"
[ "$(wc -l <out)" = 3 ] || fail "-n 3 on two hosts: $(cat out)"
job 0 "${remote[@]}" --hosts localhost:1,b:1 sh -c 'echo "${FAKE_SSH_HOST:-here}"'
prints "[0] here"
prints "[1] b"
job 4 "${remote[@]}" -x block --hosts a:1,b:1 sh -c '[ $FAKE_SSH_HOST = b ] && exit 4; read x <>$block'
says "PE 1 of 2 (host b, pid "
# An exit code may be the consequence of a death by a signal, of which another host's agent tells later; so may an abort.
mkfifo first
second_by() { # <exit code> <signal> <PE that is named, and its host>
  job "$1" "${remote[@]}" --hosts a:1,b:1 sh -c 'if [ $FAKE_SSH_HOST = a ]; then echo $$ >first; exit 4; fi
    read first <first; while [ -e /proc/$first ]; do :; done; kill -'"$2"' $$'
  says "PE $3, pid "
}
second_by 137 KILL "1 of 2 (host b"
second_by 4 ABRT "0 of 2 (host a"
job 1 "${remote[@]}" -x block --hosts a:1,unreachable:1 sh -c 'echo started; read x <>$block'
says "[host unreachable] fake_ssh: connect to host unreachable: No route to host"
says "host unreachable: the agent of PE 1"
says "exited with code 255"
[ ! -s out ] || fail "a PE was started without the others: $(cat out)"
job 1 "${remote[@]}" --hosts a:1 --agent-path /nowhere/peal-run true
says "/nowhere/peal-run: not found"
job 127 "${remote[@]}" --hosts a:1,b:1 ./nothing_here
says ": ./nothing_here: No such file or directory" # on either
# The connection breaks: the PEs there end, and so does the job.
mkfifo pids
cat alive >witness &
witness=$!
FAKE_SSH_PIDS="$folder/pids" "$run" "${remote[@]}" -x block --hosts a:2 bash -c "exec 7>alive; $said; read x <>\$block" >out 2>err &
launcher=$!
read -r agent <pids
exec 8<ready
read -r -u 8 && read -r -u 8
exec 8<&-
kill -9 "$agent"
wait_gone $witness "a PE without its agent"
wait_gone $launcher "peal-run without its agent"
wait $launcher
[ $? = 1 ] || fail "a broken connection: exit code not 1"
says "host a: the agent of PEs 0-1 ($ssh) was killed by signal 9 (Killed), before its PEs ended"
# Where a PE has ended for good no PE is started again, on other hosts neither. The agent of host a is gone when peal-run
# has heard of the end of PE 0.
"$run" "${remote[@]}" -x block --hosts a:1,b:1 --restart 1 bash -c "[ \$PEAL_TCP_RANK = 0 ] && exit 0
  trap 'exit 3' USR1; $said; read x <>\$block & wait" >out 2>err &
launcher=$!
exec 8<ready
read -r -u 8
exec 8<&-
timeout 100 sh -c "until [ \$(wc -w </proc/$launcher/task/$launcher/children) = 1 ]; do :; done" || fail "the agent of PE 0 stays"
kill -USR1 $launcher
wait_gone $launcher "peal-run without PE 0"
wait $launcher
[ $? = 3 ] || fail "a PE that failed where another had ended: $(cat out err)"
! grep -q 'started again' err || fail "started again, though PE 0 had ended for good: $(cat err)"
# And when the launcher is killed.
killed_launcher "${remote[@]}" -x block --hosts a:1,b:1 bash -c "exec 7>alive; $said; read x <>\$block"

# Mistakes.
mistake() {
  local wanted=$1
  shift
  job 2 "$@"
  says "$wanted"
}
mistake "no program; see peal-run --help" -n 2
mistake "-n 0: 1 to 65536 PEs" -n 0 true
mistake "peal-run: --n_pes is unknown" --n_pes 2 true
mistake "--hosts: 'a:many' is not a host and a number of PEs" --hosts a:many true
mistake "-n 5: --hosts a:2,b:2 have room for 4" --hosts a:2,b:2 -n 5 true
mistake "--grace: 'soon' is not a time such as 500ms or 10s" --grace soon true
mistake "-x NOT_THERE: not set here" -x NOT_THERE true
mistake "-x PEAL_TCP_RANK=1: peal-run itself sets it" -x PEAL_TCP_RANK=1 true
PEAL_BOOTSTRAP=mpi mistake "PEAL_BOOTSTRAP=mpi: the PEs of peal-run meet over tcp; unset it" true
job 127 -n 2 ./nothing_here
says "peal-run: this machine: ./nothing_here: No such file or directory"
job 126 -n 2 ./in
says "./in: Permission denied"
job 127 -n 2 no_such_program
says "no_such_program: not found in PATH"
job 0 --help
grep -q 'peal-run -n 4 ./program' out || fail "--help: $(cat out)"

exit $((failures != 0))
