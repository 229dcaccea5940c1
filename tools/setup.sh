#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Sourced by the other tools: brings a bare Debian 12 to where bazel can build, and says what it is doing.
# Quiet when everything is there already.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() { printf '\033[1m==> %s\033[0m\n' "$*"; }

# What a build of the library takes, what one of the benchmarks takes beside it, what the site of the documentation takes
# by itself, and what tests take beside the first two.
build_packages=(
  bazel-bootstrap bazel-rules-java bazel-rules-proto bazel-platforms default-jdk-headless
  g++ python3 openmpi-bin libopenmpi-dev libibverbs-dev libboost-context-dev libcli11-dev libfmt-dev
  libxxhash-dev nettle-dev lld
)
perf_packages=(nlohmann-json3-dev)
docs_packages=(python3 python3-sphinx python3-myst-parser furo doxygen)
packages=(
  "${build_packages[@]}" "${perf_packages[@]}"
  git clang-format
  ibverbs-utils perftest ucx-utils python3-pyverbs python3-scapy
  libgtest-dev googletest libbenchmark-dev valgrind spin
  clang libclang-rt-14-dev
  cmake make pkg-config gdb
  python3-numpy python3-venv
  qemu-system-x86 busybox-static cpio iproute2 tshark slurmctld slurmd slurm-client munge
  python3-torch
)

# install_missing PACKAGE...: from Debian, quiet when all are there.
install_missing() {
  local missing=()
  for package in "$@"; do
    dpkg-query -W -f '${db:Status-Status}\n' "$package" 2>/dev/null | grep -qx installed || missing+=("$package")
  done
  [ ${#missing[@]} = 0 ] && return
  local sudo=()
  if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || { echo "tools: please install (as root): apt-get install ${missing[*]}" >&2; exit 1; }
    sudo=(sudo)
  fi
  say "installing ${#missing[@]} Debian packages: ${missing[*]}"
  local log
  log=$(mktemp)
  if ! { "${sudo[@]}" apt-get update -q && DEBIAN_FRONTEND=noninteractive \
    "${sudo[@]}" apt-get install -y -q --no-install-recommends "${missing[@]}"; } >"$log" 2>&1 </dev/null; then
    tail -n 30 "$log" >&2
    echo "tools: apt-get failed; its last lines are above" >&2
    exit 1
  fi
  rm -f "$log"
}

# The kernel of the virtual hosts, for tests/hosts; without it those tests are skipped and say so.
fetch_kernel() {
  python3 tests/hosts/kernel.py || echo "tools: no kernel for virtual hosts; the reason is above" >&2
}

# Where objects of all clones of this machine lie: $BUILD_CACHE, or `none`; no name with PEAL_, which programs of peal refuse
# where they do not know it. Bazel does not see what Debian or CUDA has installed, so each state of that has a folder of its
# own there.
build_cache=${BUILD_CACHE:-${XDG_CACHE_HOME:-~/.cache}/peal/build}
cache_options=()
use_build_cache() {
  [ "$build_cache" = none ] && return
  local nvcc=${NVCC:-none} installed
  [ "$nvcc" = none ] && nvcc=nvcc
  installed=$({ dpkg-query -W; g++ --version; "$nvcc" --version || true; } 2>/dev/null | sha256sum | cut -c1-16)
  mkdir -p "$build_cache/$installed" 2>/dev/null || {
    say "no objects are kept: $build_cache cannot be written (BUILD_CACHE names another folder)"
    return 0
  }
  cache_options=(--disk_cache="$build_cache/$installed")
  say "objects compiled before, by any clone, come from $build_cache (BUILD_CACHE=none does without)"
}

# Of the objects those that were used last stay: two builds of everything. Only what Bazel keeps is looked at: the folder
# may be somebody's own. What other runs remove meanwhile makes find fail, and is none of this one's failures.
trim_build_cache() {
  [ -d "$build_cache" ] || return 0
  find "$build_cache" -regextype posix-extended -type f -regex '.*/[0-9a-f]{16}/(ac|cas)/[0-9a-f]{2}/[0-9a-f]{64}' \
    -printf '%A@ %s %p\n' 2>/dev/null | sort -rn |
    awk -v room="$((6 << 30))" '{ room -= $2 } room < 0 { sub(/^[^ ]+ [^ ]+ /, ""); print }' | xargs -r -d '\n' rm -f || true
}

# build TARGET...: what Bazel is at, every ten seconds; the rest of what it says only when something goes wrong.
build() {
  local log
  log=$(mktemp)
  if ! bazel build "${cache_options[@]}" --show_progress_rate_limit=10 "$@" 2>&1 </dev/null | tee "$log" |
    sed -nu 's/^\[\([0-9,]* \/ [0-9,]*\)\] \([^;]*\);.*/    \1 \2/p' >&2; then
    cat "$log" >&2
    rm -f "$log"
    return 1
  fi
  rm -f "$log"
}

# What hangs fails soon: peers of these programs have nothing else to do.
export PEAL_TIMEOUT=${PEAL_TIMEOUT:-10s}

# mpirun for one machine: works as root, with more PEs than cores, over loopback.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
launch() {
  local pes=$1
  shift
  mpirun -np "$pes" --oversubscribe --bind-to none --mca btl self,vader --mca pml ob1 \
    --mca btl_vader_single_copy_mechanism none --mca mpi_yield_when_idle 1 --mca plm isolated \
    --mca oob_tcp_if_include lo "$@"
}
