#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# tests/gpu/clients/nccl_gin.sh SOFTNIC PROGRAM [NP]: kernels with NCCL's GIN, by its GDAKI backend, as NP (2) ranks of
# this machine, a GPU each, over the software NIC on CPUs, which serves the kernels' queues in the GPUs' memory beside
# those of NCCL's threads in the host's.
#
#   SOFTNIC   folder with the software NIC's libraries and libpeal_sysfs.so
#   PROGRAM   nccl_gin of build_nccl_gin.sh
#
# NCCL_HOME names NCCL's folder; without it, the wheel of python3. NCCL_* of the environment hold, but for those that are
# set here whatever it says: _GIN_TYPE, _GIN_GDAKI_NIC_HANDLER, _NET, _NVLS_ENABLE, _DEBUG, _DEBUG_SUBSYS, _DEBUG_FILE.
# Each rank must say that it connected queue pairs of GDAKI's; their NIC handler is the kernel.
set -euo pipefail
[ $# -ge 2 ] || { sed -n '4,13s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; exit 2; }
softnic=$(realpath "$1") program=$(realpath "$2") np=${3:-2}
nccl=${NCCL_HOME:-$(python3 -c '
import importlib.util
spec = importlib.util.find_spec("nvidia")
print(next((f"{p}/nccl" for p in spec.submodule_search_locations), ""))')}
[ -e "$nccl/lib/libnccl.so.2" ] || { echo "nccl_gin.sh: no NCCL at '$nccl'" >&2; exit 1; }
log=$(mktemp -d)
pids=()
trap 'kill "${pids[@]}" 2>/dev/null || true; rm -rf "$log"' EXIT

export PEAL_SOFTNIC_ENGINE=cpu PEAL_SOFTNIC_FABRIC=nccl-gin-$$
# GIN's type 3 is GDAKI, its NIC handler 2 a kernel that rings by itself: no silent way round either. Symmetric memory
# wants P2P between the GPUs, though GIN sends nothing by it.
export NCCL_GIN_TYPE=3 NCCL_GIN_GDAKI_NIC_HANDLER=2
export NCCL_NET=IB NCCL_NVLS_ENABLE=0 NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NET
# CUDA would load a kernel at its first launch, while another one waits for the NIC, and hold up the NIC's copies.
export DOCA_GPUNETIO_LOG=${DOCA_GPUNETIO_LOG:-3} CUDA_MODULE_LOADING=${CUDA_MODULE_LOADING:-EAGER}
export NCCL_DEBUG_FILE=$log/nccl-%p NCCL_SOCKET_IFNAME=${NCCL_SOCKET_IFNAME:-lo}
export LD_LIBRARY_PATH=$softnic:$nccl/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
for ((rank = 0; rank < np; ++rank)); do
  LD_PRELOAD=$softnic/libpeal_sysfs.so timeout -k 5 240 "$program" "$rank" "$np" "$log/id" 2>"$log/errors-$rank" &
  pids+=($!)
done
code=0
for _ in "${pids[@]}"; do wait -n || { code=1; break; }; done  # the first that fails ends the others
if [ "$code" != 0 ]; then
  { grep -h 'WARN\|DOCA\|GIN' "$log"/nccl-* || true; } | tail -n 60 >&2
  tail -n 40 "$log"/errors-* >&2
  exit 1
fi
for file in "$log"/nccl-*; do
  grep -q 'Connected main QP' "$file" || continue
  uses=$((${uses:-0} + 1))
done
grep -h 'Assigned plugin' "$log"/nccl-* | head -"$np" || true
[ "${uses:-0}" -ge "$np" ] || { echo "nccl_gin.sh: ${uses:-0} of $np ranks connected queue pairs of GDAKI"; exit 1; }
