#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# tests/gpu/clients/nccl.sh SOFTNIC [NP]: PyTorch's NCCL backend as NP (2) ranks of this machine, a GPU each, over NCCL's
# InfiniBand transport and the software NIC on CPUs. P2P and shared memory are off, so every byte takes the NIC.
#
#   SOFTNIC   folder with the software NIC's libraries and libpeal_sysfs.so
#
# Each rank must say that NCCL uses the NIC; NCCL_* of the environment hold. With NCCL_NET_GDR_LEVEL=SYS the NIC reads and
# writes the GPUs' memory itself, which is looked for too.
set -euo pipefail
[ $# -ge 1 ] || { sed -n '4,9s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; exit 2; }
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
softnic=$(realpath "$1") np=${2:-2}
log=$(mktemp -d)
pids=()
trap 'kill "${pids[@]}" 2>/dev/null || true; rm -rf "$log"' EXIT

export PEAL_SOFTNIC_ENGINE=cpu PEAL_SOFTNIC_FABRIC=nccl-$$
export NCCL_NET=IB NCCL_P2P_DISABLE=1 NCCL_SHM_DISABLE=1 NCCL_NVLS_ENABLE=0 NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NET
# CUDA would load a kernel at its first launch, while another one waits for the NIC, and hold up the NIC's copies.
[ -z "${NCCL_NET_GDR_LEVEL:-}" ] || export CUDA_MODULE_LOADING=${CUDA_MODULE_LOADING:-EAGER}
export NCCL_DEBUG_FILE=$log/%p NCCL_SOCKET_IFNAME=${NCCL_SOCKET_IFNAME:-lo}
export MASTER_ADDR=127.0.0.1 MASTER_PORT=${MASTER_PORT:-29531} WORLD_SIZE=$np
export LD_LIBRARY_PATH=$softnic${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} LD_PRELOAD=$softnic/libpeal_sysfs.so
for ((rank = 0; rank < np; ++rank)); do
  RANK=$rank timeout -k 5 120 python3 "$here/nccl_check.py" &
  pids+=($!)
done
code=0
for _ in "${pids[@]}"; do wait -n || { code=1; break; }; done  # the first that fails ends the others
[ "$code" = 0 ] || { grep -h WARN "$log"/* | tail -20; exit 1; }
for file in "$log"/*; do
  grep -q 'NET/IB : Using.*mlx5_0' "$file" || continue
  uses=$((${uses:-0} + 1))
done
grep -h 'NET/IB : Using' "$log"/* | head -"$np"
[ "${uses:-0}" -ge "$np" ] || { echo "nccl.sh: ${uses:-0} of $np ranks opened mlx5_0"; exit 1; }
if [ "${NCCL_NET_GDR_LEVEL:-}" = SYS ]; then
  grep -hq 'via NET/IB/.*/GDRDMA' "$log"/* || { echo "nccl.sh: no channel goes by GDRDMA"; exit 1; }
  echo "channels by GDRDMA: $(grep -h 'via NET/IB/.*/GDRDMA' "$log"/* | wc -l)"
fi
