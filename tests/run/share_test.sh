#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# share_test.sh <peal-run> <hello>: PEs that share less than they think, and machines with little to share. PEs whose
# software NICs have different folders found themselves at the other's address, and every status was ok. A link for
# which there was no memory or no descriptor was told, after a minute, as a cable's fault.
set -u
run=$(realpath "$1")
export hello=$(realpath "$2")
export folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
log=$folder/log
failures=0
fail() {
  echo "$*"
  failures=$((failures + 1))
}

# job <exit code> <PEs> <what a PE runs>
job() {
  local code
  timeout --kill-after=5 200 "$run" -n "$2" sh -c "$3" >"$log" 2>&1
  code=$?
  [ $code = "$1" ] || fail "$3: exit code $code, not $1: $(cat "$log")"
}
# Of what peal says: lines of the software NIC itself do not count.
says() {
  local part
  for part; do
    grep -v '^\(\[[0-9]*\] \)\?softnic: ' "$log" | grep -qF -- "$part" || fail "'$part' is not in: $(cat "$log")"
  done
}
export PEAL_SOFTNIC_DIR=$folder
unset PEAL_SOFTNIC_FABRIC

for transport in auto ibgda proxy; do
  export PEAL_TRANSPORT=$transport
  job 1 2 'PEAL_SOFTNIC_FABRIC=f$PEAL_TCP_RANK exec $hello'
  says "PE 0 (host $(hostname), process " ' and PE 1 (host ' "of $folder/peal-softnic-$(id -u)/f0)" '/f1) do not reach' \
    'do not share a fabric' PEAL_SOFTNIC_DIR PEAL_SOFTNIC_FABRIC 'docker run --ipc=host' PEAL_SOFTNIC_UDP
done
unset PEAL_TRANSPORT
mkdir "$folder/0" "$folder/1" "$folder/2"
PEAL_SELF_TEST=off job 1 3 'PEAL_SOFTNIC_DIR=$folder/$PEAL_TCP_RANK exec $hello'
says "of $folder/0/" "of $folder/1/" 'do not share a fabric'

# Two builds of peal.
sed 's/peal {}, protocol/peal {}, Protocol/' "$hello" >"$folder/other" && chmod +x "$folder/other"
job 1 2 '[ $PEAL_TCP_RANK = 0 ] || hello=$folder/other; exec $hello'
says "PE 1 on $(hostname) runs peal " ', Protocol ' "PE 0 on $(hostname) runs peal " ', protocol ' 'install one build'

# What the operating system says arrives, with the place.
PEAL_SOFTNIC_DIR=/nonexistent/place job 1 2 'exec $hello'
says 'mkdir /nonexistent/place/peal-softnic' 'No such file or directory'
mkfifo "$folder/pipe"
for variable in PEAL_SOFTNIC_FAULTS PEAL_SOFTNIC_PRESENT; do
  job 1 2 "$variable=$folder/pipe exec \$hello"
  says "$variable=\"$folder/pipe\": " 'this is no regular file'
done
# Whatever it is that finds no descriptor left, down to a link's file at the other end.
for limit in 16 20 24 26 28 30 31 32 33; do
  timeout --kill-after=5 200 "$run" -n 4 sh -c "ulimit -n $limit; exec \$hello" >"$log" 2>&1 && continue
  says 'Too many open files' 'ulimit -n'
done

# A folder with little memory, or with a file system of its own for each PE, takes a mount.
[ "$(id -u)" = 0 ] && private='unshare -m --propagation private' || private='unshare -r -m --propagation private'
if ! $private mount -t tmpfs none "$folder" 2>"$log"; then
  echo "skipped: folders that are small, or not the same for all PEs: no mount here ($(tail -n 1 "$log"))"
  exit $((failures != 0))
fi
job 1 2 "$private sh -c 'mount -t tmpfs none \$folder/0; PEAL_SOFTNIC_DIR=\$folder/0 exec \$hello'"
says 'do not share a fabric' 'not only its name'
# in_folder_of <size> <PEs> <exit code>: with all their links.
in_folder_of() {
  mkdir -p "$folder/small"
  PEAL_CONNECT=eager PEAL_SOFTNIC_DIR=$folder/small timeout --kill-after=5 200 $private sh -c \
    'mount -t tmpfs -o size=$0 none $folder/small; exec "$1" -n $2 $hello' "$1" "$run" "$2" >"$log" 2>&1
  local code=$?
  [ $code = "$3" ] || fail "$2 PEs in $1: exit code $code, not $3: $(cat "$log")"
}
in_folder_of 64m 12 0
in_folder_of 2m 8 0
in_folder_of 512k 8 1
says 'No space left on device' "$folder/small/peal-softnic-0/default: " 'of 512 KiB are left' \
  '8 NICs that all talk to each other need 1120 KiB' 'docker run --shm-size='
exit $((failures != 0))
