#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# tests/gpu/clients/nixl.sh SOFTNIC [NP [MEMORY]]: NIXL's UCX backend as NP (2) ranks of this machine over the software
# NIC on CPUs, between GPUs' memory (MEMORY VRAM, a GPU for each rank) or the host's (DRAM). By default VRAM where
# nvidia-smi lists a GPU.
#
#   SOFTNIC   folder with the software NIC's libraries and libpeal_sysfs.so
#
# NIXL_HOME names the folder of the unpacked wheel nixl-cu13 (1.5.1), which holds nixl_cu13/ and nixl_cu13.libs/; without
# it, the one of python3. The wheel has a UCX of its own that wants its own libibverbs and libmlx5, by names with a hash:
# a folder of links gives the software NIC those names. UCX must say that all puts and gets go by mlx5_0.
set -euo pipefail
[ $# -ge 1 ] || { sed -n '4,13s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; exit 2; }
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
softnic=$(realpath "$1") np=${2:-2} memory=${3:-}
[ -n "$memory" ] || { nvidia-smi -L 2>/dev/null | grep -q '^GPU' && memory=VRAM || memory=DRAM; }
python=${PYTHON:-python3}
nixl=${NIXL_HOME:-$("$python" -c '
import importlib.util, os
spec = importlib.util.find_spec("nixl_cu13")
print(os.path.dirname(os.path.dirname(spec.origin)) if spec else "")')}
ib=$nixl/nixl_cu13.libs/ucx/libuct_ib_mlx5.so.0.0.0
[ -e "$ib" ] || { echo "nixl.sh: no NIXL with a UCX at '$nixl'" >&2; exit 1; }
log=$(mktemp -d)
pids=()
trap 'kill "${pids[@]}" 2>/dev/null || true; rm -rf "$log"' EXIT

mkdir "$log/names"
for name in $(grep -aoE 'lib(ibverbs|mlx5)-[0-9a-f]+\.so[.0-9]*' "$ib" | sort -u); do
  ln -s "$softnic/${name%%-*}.so.1" "$log/names/$name"
done

export PEAL_SOFTNIC_ENGINE=cpu PEAL_SOFTNIC_FABRIC=nixl-$$
# Nothing but the NIC moves data; cuda_copy tells UCX what a GPU's memory is.
export UCX_TLS=${UCX_TLS:-rc,cuda_copy} UCX_NET_DEVICES=mlx5_0:1 UCX_PROTO_INFO=y UCX_WARN_UNUSED_ENV_VARS=n
export CUDA_MODULE_LOADING=${CUDA_MODULE_LOADING:-EAGER}
export PYTHONPATH=$nixl${PYTHONPATH:+:$PYTHONPATH}
export LD_LIBRARY_PATH=$log/names:$softnic${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
for ((rank = 0; rank < np; ++rank)); do
  LD_PRELOAD=$softnic/libpeal_sysfs.so timeout -k 5 "${NIXL_PATIENCE:-110}" "$python" "$here/nixl_check.py" "$rank" "$np" \
    "$log" "$memory" >"$log/rank-$rank" 2>&1 &
  pids+=($!)
done
code=0
for _ in "${pids[@]}"; do wait -n || { code=1; break; }; done  # the first that fails ends the others
if [ "$code" != 0 ]; then
  for file in "$log"/rank-*; do echo "$(basename "$file"):"; grep -v '^\[.*|' "$file" | tail -n 60; done
  exit 1
fi
grep -h '^rank' "$log"/rank-*
# UCX draws a table for every way it chooses; in the last column the transport and device.
grep -h 'remote memory\|active message' -A 12 "$log"/rank-* | grep -oE '[a-z_0-9]+/(mlx5_0:1|cuda|memory)[^ |]*' | sort | uniq -c
for file in "$log"/rank-*; do
  grep -qE '\| *(zero-copy|short|copy-in|multi-frag zero-copy) *\| rc_[a-z0-9]+/mlx5_0:1' "$file" ||
    { echo "nixl.sh: $(basename "$file") does not say that data goes by mlx5_0"; exit 1; }
  ! grep -E '^\[.*\|.* (cuda_ipc|gdr_copy|cma|sysv|posix|tcp|self)/' "$file" ||
    { echo "nixl.sh: $(basename "$file") says that data goes by something else too"; exit 1; }
done
