#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# tests/gpu/clients/build_nccl_gin.sh OUT [NCCL]: builds OUT/nccl_gin, without Bazel, as NCCL comes as a Python wheel.
#
#   NCCL   folder with include/ and lib/; default: the wheel nvidia-nccl-cu13 (2.32.3) of python3
set -euo pipefail
[ $# -ge 1 ] || { sed -n '4,6s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; exit 2; }
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
out=$1
nccl=${2:-$(python3 -c '
import importlib.util
spec = importlib.util.find_spec("nvidia")
print(next((f"{p}/nccl" for p in spec.submodule_search_locations), ""))' 2>/dev/null || true)}
if [ ! -e "$nccl/include/nccl_device.h" ]; then
  echo "build_nccl_gin.sh: no NCCL at '$nccl'; name the folder that has include/nccl_device.h," \
    "or install nvidia-nccl-cu13" >&2
  exit 1
fi
mkdir -p "$out"
# -I, before an older NCCL of the toolkit's. Of GIN's backends GDAKI, and the proxy, without which the headers of 2.32.3
# do not compile for the host. Not every name has its user in every scope: 177.
nvcc -std=c++20 -O2 -gencode arch=compute_90,code=sm_90 -DNCCL_GIN_GPI_ENABLE=0 -DNCCL_GIN_EFA_GDA_ENABLE=0 \
  -I"$nccl/include" -diag-suppress 177,3012,3013 "$here/nccl_gin.cu" -o "$out/nccl_gin" \
  -Xlinker "$nccl/lib/libnccl.so.2"
