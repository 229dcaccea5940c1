#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# tests/gpu/clients/nvshmem.sh SOFTNIC PROGRAM [NP]: a program of NVSHMEM's as NP (2) PEs of this machine, over its
# IBGDA transport and the software NIC on a GPU, under MPS. CUDA_VISIBLE_DEVICES=0 puts all of it on one GPU.
#
#   SOFTNIC   folder with the software NIC's libraries, libpeal_sysfs.so and peal_softnic_engine
#   PROGRAM   nvshmem_check, or another that was built with the wheel nvidia-nvshmem-cu13
#
# NVSHMEM_HOME names NVSHMEM's folder; without it, the wheel of python3. NVSHMEM_* of the environment hold.
set -euo pipefail
[ $# -ge 2 ] || { sed -n '4,10s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; exit 2; }
softnic=$(realpath "$1") program=$(realpath "$2") np=${3:-2}
nvshmem=${NVSHMEM_HOME:-$(python3 -c '
import importlib.util
spec = importlib.util.find_spec("nvidia")
print(next((f"{p}/nvshmem" for p in spec.submodule_search_locations), ""))')}
[ -e "$nvshmem/lib/libnvshmem_host.so.3" ] || { echo "nvshmem.sh: no NVSHMEM at '$nvshmem'" >&2; exit 1; }

mps=$(mktemp -d)
export CUDA_MPS_PIPE_DIRECTORY=$mps CUDA_MPS_LOG_DIRECTORY=$mps
nvidia-cuda-mps-control -d
trap 'echo quit | nvidia-cuda-mps-control >/dev/null; rm -rf "$mps"' EXIT

export PEAL_SOFTNIC_ENGINE=gpu PEAL_SOFTNIC_FABRIC=nvshmem-$$
# No silent way round the GPU: its kernels ring, or NVSHMEM gives up.
export NVSHMEM_IBGDA_NIC_HANDLER=gpu
export NVSHMEM_IB_ENABLE_IBGDA=1 NVSHMEM_DISABLE_P2P=1 NVSHMEM_DISABLE_NVLS=1 NVSHMEM_BOOTSTRAP=${NVSHMEM_BOOTSTRAP:-MPI}
export NVSHMEM_REMOTE_TRANSPORT=${NVSHMEM_REMOTE_TRANSPORT:-none} NVSHMEM_SYMMETRIC_SIZE=${NVSHMEM_SYMMETRIC_SIZE:-64M}
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
timeout -k 5 120 mpirun --oversubscribe --bind-to none -np "$np" --mca pml ob1 --mca btl self,vader --mca btl_vader_single_copy_mechanism none \
  --mca plm isolated --mca oob_tcp_if_include lo \
  -x LD_LIBRARY_PATH="$softnic:$nvshmem/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" -x LD_PRELOAD="$softnic/libpeal_sysfs.so" \
  "$program"
