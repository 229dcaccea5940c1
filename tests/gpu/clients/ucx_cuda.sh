#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# tests/gpu/clients/ucx_cuda.sh SOFTNIC UCX MODE: ucx_perftest of UCX 1.22.0 with its own settings, between two processes
# of this machine, over the software NIC. It checks that tests complete, not the bytes. Prints "N passed, N failed".
#
#   SOFTNIC   folder with the software NIC's libraries and libpeal_sysfs.so
#   UCX       folder with bin/ucx_perftest and lib/, of a UCX with verbs and CUDA
#   MODE      rc_verbs, rc_mlx5: puts, gets, active messages, atomics of UCT, and tags, puts, gets, active messages,
#             atomics of UCP, over that transport; with a GPU's memory where nvidia-smi lists a GPU (MEMORY=host: not)
#             device: puts by a kernel (ucp_device_put) over the transport rc_gda, whose queues are in GPU memory
#
# PEAL_SOFTNIC_ENGINE is cpu by default: UCX has queues and keys of host memory beside rc_gda's on the same device.
# PATIENCE is how many seconds all may take (55).
set -euo pipefail
[ $# -ge 3 ] || { sed -n '4,14s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; exit 2; }
softnic=$(realpath "$1") ucx=$(realpath "$2") mode=$3
gpus=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU' || true)
memory=${MEMORY:-}
[ -n "$memory" ] || { [ "$gpus" != 0 ] && memory=cuda || memory=host; }

# Test, bytes, iterations, the rest. In @there only what the NIC writes or reads at the target is a GPU's: UCX's CPU
# touches the other end, be it a zero-copy message's header alone. In @both both ends are.
uct='
am_lat 8 50 -D short @there
am_lat 2000 50 -D bcopy @there
am_lat 64 50 -D zcopy @there
am_bw 8000 50 -D zcopy @there
put_lat 8 50 -D short @there
put_lat 8 50 -D zcopy @both
put_bw 64 50 -D short @there
put_bw 4000 50 -D bcopy @there
put_bw 4001 50 -D zcopy @both
put_bw 1000000 50 -D zcopy @both
get 4000 50 -D bcopy @there
get 1000 50 -D zcopy @both
get 1000000 50 -D zcopy @both
get_bw 65536 50 -D zcopy @both
add_lat 8 50 -D short @both
add_mr 8 50 -D short @both
fadd 8 50 -D short @there
cswap 8 50 -D short @there
'
of_mlx5='
add_mr 4 50 -D short @both
fadd 4 50 -D short @there
swap 8 50 -D short @there
swap 4 50 -D short @there
cswap 4 50 -D short @there
'
ucp='
tag_lat 8 50 @both
tag_lat 4001 50 @both
tag_bw 65536 50 @both
tag_lat 1000000 50 @both
tag_sync_lat 100 100 @both
tag_lat 8 100 -E sleep @both
ucp_put_lat 8 50 @both
ucp_put_bw 4001 50 @both
ucp_put_bw 1000000 50 @both
ucp_get 8 50 @both
ucp_get 1000000 50 @both
ucp_am_lat 8 50 @both
ucp_am_bw 100000 100 @both
stream_bw 4096 50 @both
'
ucp_atomics='
ucp_add 8 50 @both
ucp_fadd 8 50 @both
ucp_fadd 4 50 @both
ucp_swap 8 50 @both
ucp_cswap 8 50 @both
'
# Those of share/ucx/perftest/test_types_ucp_device_cuda, with fewer iterations, and others. -a: a kernel posts.
device='
ucp_put_lat 8 1000 -a cuda @both
ucp_put_bw 1024 2000 -a cuda @both
ucp_put_lat 1024 1000 -a cuda @both
ucp_put_bw 1024 2000 -T 32 -a cuda @both
ucp_put_lat 1024 1000 -T 32 -a cuda @both
ucp_put_bw 1024 2000 -T 32 -L warp -a cuda @both
ucp_put_lat 1024 1000 -T 32 -L warp -a cuda @both
ucp_put_bw 1000000 100 -a cuda @both
'
channels='
ucp_put_bw 8 500 -T 32 -Y per-thread -a cuda @both
ucp_put_bw 1024 500 -T 32 -Y per-thread -a cuda @both
'

log=$(mktemp -d)
pids=()
trap 'kill "${pids[@]}" 2>/dev/null || true; rm -rf "$log"' EXIT
export PEAL_SOFTNIC_ENGINE=${PEAL_SOFTNIC_ENGINE:-cpu} PEAL_SOFTNIC_FABRIC=ucx-$$
# ucx_perftest ends its puts with one whose last byte differs, and waits for that byte: no put may be placed later.
export PEAL_SOFTNIC_PLACEMENT=ordered PEAL_SOFTNIC_PRESENT=${PEAL_SOFTNIC_PRESENT:-link=ib mtu=4096}
export UCX_WARN_UNUSED_ENV_VARS=n CUDA_MODULE_LOADING=${CUDA_MODULE_LOADING:-EAGER}
copies= # cuda_copy tells UCX what a GPU's memory is
[ "$memory" = host ] || copies=,cuda_copy
export LD_LIBRARY_PATH=$softnic:$ucx/lib:$ucx/lib/ucx${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
until=$((SECONDS + ${PATIENCE:-55}))

# perftest PROCESS ARGUMENTS...: the server is process 0, the client process 1. In mode device each has a GPU of its own
# alone, if there are two: of several UCX makes a lane to the first, and looks for one to another.
perftest() {
  [ "$mode" != device ] || export CUDA_VISIBLE_DEVICES=$(($1 % gpus))
  shift
  LD_PRELOAD=$softnic/libpeal_sysfs.so timeout -k 2 "$((until - SECONDS > 1 ? until - SECONDS : 1))" \
    "$ucx/bin/ucx_perftest" -f -w 20 -p "$port" "$@"
}

# One connection that runs what $log/batch lists. A test that passed leaves a line of figures at the client.
connect() {
  port=$((20000 + RANDOM % 12000))
  pids=()
  perftest 0 "$@" -b "$log/batch" >"$log/server" 2>&1 &
  pids+=($!)
  for ((i = 0; i < 100; ++i)); do  # until it listens
    grep -qE ":$(printf %04X "$port") [0-9A-F]+:[0-9A-F]+ 0A" /proc/net/tcp /proc/net/tcp6 2>/dev/null && break
    kill -0 "${pids[0]}" 2>/dev/null || break
    sleep 0.05
  done
  perftest 1 "$@" -b "$log/batch" 127.0.0.1 >"$log/client" 2>&1 &
  pids+=($!)
  # The first that fails ends the other, which would wait.
  wait -n "${pids[@]}" || kill "${pids[@]}" 2>/dev/null || true
  wait "${pids[@]}" 2>/dev/null || true
  pids=()
}

passed=0 failed=0
# What a process said beside figures and the complaint of a kernel without RDMA that there is no such netlink.
said() { { grep -vE '^[+|]|sock\.c|netlink\.c|^[a-z_]+-[0-9]+' "$1" || true; } | tail -n 25; }

# run TITLE ARGUMENTS...: all tests of standard input. After one that fails those behind it get a connection of their own.
run() {
  local title=$1 name where figures
  shift
  : >"$log/batch"
  while read -r test bytes iterations rest; do
    [ -n "$test" ] || continue
    where=${rest##*@} rest=${rest%@*}
    case $memory-$where in
      host-*) where= ;;
      *-there) where="-m host,$memory" ;;
      *) where="-m $memory" ;;
    esac
    name=$(tr -cs 'A-Za-z0-9_\n' - <<<"$test-$bytes-$rest$where")
    echo "${name%-} -t $test -s $bytes -n $iterations $rest $where"
  done >"$log/batch"
  while [ -s "$log/batch" ]; do
    connect "$@"
    while read -r name _; do
      if figures=$(grep -E "^$name +[0-9]+ .* [0-9]+$" "$log/client"); then
        passed=$((passed + 1))
        echo "$title ${figures##*$'\n'}"
        sed -i 1d "$log/batch"
        continue
      fi
      failed=$((failed + 1))
      echo "$title $name FAILED; the client and the server said:"
      said "$log/client"
      said "$log/server"
      sed -i 1d "$log/batch"
      if [ "$SECONDS" -ge "$until" ]; then
        failed=$((failed + $(wc -l <"$log/batch")))
        echo "$title: no time is left for $(wc -l <"$log/batch") others"
        : >"$log/batch"
      fi
      break
    done < <(cat "$log/batch")
  done
}

case $mode in
  rc_verbs)
    run "$mode" -x rc_verbs -d mlx5_0:1 <<<"$uct"
    export UCX_TLS=rc_v$copies UCX_NET_DEVICES=mlx5_0:1
    run "UCP over $mode" <<<"$ucp"
    # With a GPU's memory these end in a segmentation fault of the target's UCX process.
    if [ "$memory" = host ]; then
      run "UCP over $mode" <<<"$ucp_atomics"
    else
      echo "UCP over $mode: atomics are left out"
    fi
    ;;
  rc_mlx5)
    run "$mode" -x rc_mlx5 -d mlx5_0:1 <<<"$uct$of_mlx5"
    export UCX_TLS=rc_x$copies UCX_NET_DEVICES=mlx5_0:1
    run "UCP over $mode" <<<"$ucp$ucp_atomics"
    ;;
  device)
    [ "$memory" = cuda ] && [ "$gpus" != 0 ] || { echo "ucx_cuda.sh: no GPU"; exit 1; }
    # The default, one NIC for every so many GPUs, gives a GPU no NIC where there are fewer NICs than GPUs. The devices
    # of rc_gda have names of their own, cuda0-mlx5_0:1.
    export UCX_TLS=${UCX_TLS:-cuda_copy,rc,rc_gda} UCX_IB_GDA_MAX_HCA_PER_GPU=1 UCX_IB_GDA_RETAIN_INACTIVE_CTX=y
    export UCX_LOG_LEVEL=${UCX_LOG_LEVEL:-diag} UCX_RC_GDA_NUM_PRE_ALLOC_EPS=${UCX_RC_GDA_NUM_PRE_ALLOC_EPS:-1}
    run "device, engine $PEAL_SOFTNIC_ENGINE" <<<"$device"
    # All queue pairs of a worker ring one register, which here keeps the last ring only: records count instead.
    export PEAL_SOFTNIC_DOORBELL=record UCX_RC_GDA_NUM_CHANNELS=4
    run "device, four channels, engine $PEAL_SOFTNIC_ENGINE" <<<"$channels"
    ;;
  *) echo "ucx_cuda.sh: no mode $mode" >&2; exit 2 ;;
esac
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
