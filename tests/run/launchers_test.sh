#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# launchers_test.sh <peal-run> <peal-id> <hello> <threads> <fake_ssh.sh> <run_mp.sh>: the same program under each
# launcher, and where a launcher's variables are there without the launcher. hello says how many PEs it is.
set -u
run=$(realpath "$1")
id=$(realpath "$2")
hello=$(realpath "$3")
threads=$(realpath "$4")
ssh=$(realpath "$5")
run_mp=$(realpath "$6")
folder=$(mktemp -d) || exit 2
trap 'rm -rf "$folder"' EXIT
unset TEST_PREMATURE_EXIT_FILE XML_OUTPUT_FILE
export PEAL_BOOTSTRAP_TIMEOUT=60s
failures=0

fail() {
  echo "$*"
  failures=$((failures + 1))
}

# is_job <PEs> <what> <output>: each PE said once that it heard from the one before it.
is_job() {
  local pe
  for ((pe = 0; pe < $1; pe++)); do
    [ "$(grep -c "PE $pe of $1: hello from PE $(((pe + $1 - 1) % $1)), ok" <<<"$3")" = 1 ] || fail "$2: PE $pe is missing: $3"
  done
}

# by_hand <PEs> <command that starts PE $pe>...: as a launcher would, all at once; their output, if all end well.
by_hand() {
  local pes=$1 pe pids=() code=0
  shift
  for ((pe = 0; pe < pes; pe++)); do
    pe=$pe timeout 200 "$@" >"$folder/$pe" 2>&1 &
    pids+=($!)
  done
  for pe in "${!pids[@]}"; do
    wait "${pids[$pe]}" || code=$?
  done
  cat "$folder"/[0-9]*
  rm -f "$folder"/[0-9]*
  return $code
}

for pes in 1 2 4; do
  is_job $pes "peal-run -n $pes" "$(timeout 200 "$run" -n $pes "$hello" 2>&1)"
done
is_job 3 "peal-run --hosts" \
  "$(timeout 200 "$run" --rsh "$ssh" --interface lo --hosts a:2,b:1 "$hello" 2>&1)"
PEAL_TCP_ID=$("$id" --interface lo)
export PEAL_TCP_ID PEAL_TCP_SIZE=2
is_job 2 "by an id" "$(by_hand 2 sh -c 'PEAL_TCP_RANK=$pe exec "$0"' "$hello")"
unset PEAL_TCP_ID PEAL_TCP_SIZE

# torchrun's variables, from its agent and by hand. MASTER_PORT itself may be in use: it is the store's.
port=$((16#$("$id" --interface lo | tail -c 5)))
export MASTER_ADDR=localhost MASTER_PORT=$port WORLD_SIZE=3
is_job 3 "RANK, WORLD_SIZE" "$(by_hand 3 sh -c 'RANK=$pe exec "$0"' "$hello")"
export TORCHELASTIC_RUN_ID=none TORCHELASTIC_RESTART_COUNT=0
is_job 3 "torchrun" "$(by_hand 3 sh -c 'RANK=$pe LOCAL_RANK=$pe exec "$0"' "$hello")"
unset MASTER_ADDR MASTER_PORT WORLD_SIZE TORCHELASTIC_RUN_ID TORCHELASTIC_RESTART_COUNT

# Open MPI's mpirun, which is a PMIx launcher as well. run_mp.sh shows what rank 0 says.
for way in auto pmix; do
  output=$(PEAL_BOOTSTRAP=$way PEAL_TCP_INTERFACE=lo PEAL_MP_LIMIT=200 "$run_mp" 2 "$hello" 2>&1)
  [ "$output" = "PE 0 of 2: hello from PE 1, ok" ] || fail "mpirun, PEAL_BOOTSTRAP=$way: $output"
done
# MPICH's mpiexec speaks PMI 1.1, as srun --mpi=pmi2 does; the protocol has a unit test where it is not installed.
if mpiexec=$(command -v mpiexec.hydra); then
  is_job 3 "mpiexec.hydra" "$(PEAL_TCP_INTERFACE=lo timeout 200 "$mpiexec" -launcher fork -n 3 "$hello" 2>&1)"
fi

# Threads as PEs.
[ "$(timeout 200 "$threads" 2>&1)" = ok ] || fail "examples/threads failed"

# Two processes that each take themselves for a whole job would end with 0.
refused() {
  local words=$1 output
  shift
  output=$(env "$@" timeout 200 "$hello" 2>&1) && fail "$* ended with 0: $output"
  grep -qF -- "$words" <<<"$output" || fail "$*: no '$words' in: $output"
  grep -qF "PEAL_BOOTSTRAP=single" <<<"$output" || fail "$*: no remedy in: $output"
  is_job 1 "$* and single" "$(env "$@" PEAL_BOOTSTRAP=single timeout 200 "$hello" 2>&1)"
}
refused "SLURM_STEP_NUM_TASKS=2 tells of several processes" SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=2
refused "WORLD_SIZE=2 without MASTER_ADDR" RANK=0 WORLD_SIZE=2
refused "PEAL_TCP_RANK=1 without PEAL_TCP_ID" PEAL_TCP_RANK=1
refused "OMPI_COMM_WORLD_SIZE=2 without PMIX_NAMESPACE" OMPI_COMM_WORLD_SIZE=2
refused "PMI_FD=99 is no open descriptor" PMI_FD=99 PMI_RANK=0 PMI_SIZE=2
refused "PMIx_Init" PMIX_RANK=0 PMIX_NAMESPACE=gone
is_job 1 "in a shell of salloc" "$(SLURM_JOB_ID=17 SLURM_NTASKS=4 timeout 200 "$hello" 2>&1)"

exit $((failures != 0))
