#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# paths_test.sh <run_mp.sh> <ring>: jobs whose PEs have NICs of other kinds than the usual one: RoCE, other subnets, other
# ports, two that differ, and some that refuse what kernels need. Each word of `nics` is a PE's PEAL_SOFTNIC_PRESENT, "+" for its blanks; the last one is
# also that of all further PEs.
set -u

if [ "${1:-}" = --as ]; then # a rank, started by run_mp.sh below
  nics=($2)
  rank=$PEAL_TCP_RANK
  last=$((${#nics[@]} - 1))
  nic=${nics[$((rank < last ? rank : last))]}
  export PEAL_SOFTNIC_PRESENT=${nic//+/ }
  shift 2
  exec "$@"
fi

run=$1
ring=$(realpath "$2")
self=$(realpath "$0")
failures=0
log=$(mktemp) || exit 2
trap 'rm -f "$log"' EXIT

# job <passes|fails> <nics> <program and arguments>, with what `wanted` lists in its output; settings in `with`.
job() {
  local outcome=$1 nics=$2
  shift 2
  local status=passes
  env PEAL_TRANSPORT=ibgda "${with[@]}" PEAL_MP_LIMIT=200 "$run" 2 "$self" --as "$nics" "$@" >"$log" 2>&1 || status=fails
  local missing=
  for text in "${wanted[@]}"; do grep -qF -- "$text" "$log" || missing+=" '$text'"; done
  if [ $status != "$outcome" ] || [ -n "$missing" ]; then
    echo "with NICs ($nics) ${with[*]}: $status, not there:${missing:- nothing}; it said:"
    cat "$log"
    failures=$((failures + 1))
  fi
  with=()
  wanted=()
}
with=()
wanted=()

with=(PEAL_INFO=1)
wanted=("mlx5_0 port 1, InfiniBand, LID " "MTU 4096, service level 0")
job passes "mtu=4096" "$ring"
with=(PEAL_INFO=1 PEAL_TRAFFIC_CLASS=106 PEAL_SERVICE_LEVEL=5)
wanted=("port 1, Ethernet, GID index 3: RoCE v2 ::ffff:10.112." "MTU 1024, priority 5, traffic class 106")
job passes "link=roce" "$ring"
with=(PEAL_INFO=1)
wanted=("Ethernet, GID index 1: RoCE v2 fd70:")
job passes "link=roce+gids=v1:ipv6,v2:ipv6" "$ring"
with=(PEAL_INFO=1 PEAL_GID_INDEX=1)
wanted=("Ethernet, GID index 1: RoCE v2 fe80::")
job passes "link=roce" "$ring"
with=(PEAL_INFO=1 PEAL_HCA=mlx5_0:2)
wanted=("mlx5_0 port 2, InfiniBand")
job passes "ports=2+port=2" "$ring"
job passes "subnet=0xfe80000000000001 subnet=0xfe80000000000002" "$ring"
with=(PEAL_GID_INDEX=0)
job passes "link=ib" "$ring"

# The smaller MTU (a message is 512 bytes: cut at one end only it would not fit), and no more READs at a time than the
# firmware of either end takes (fails at 438a779, which took the depth of one direction for the other's).
job passes "link=roce+mtu=4096 link=roce+mtu=256" "$ring"
job passes "mtu=256 mtu=4096" "$ring"
job passes "max_rd_atom=1+max_init_rd_atom=16 max_rd_atom=16+max_init_rd_atom=4" "$ring"
with=(PEAL_MTU=512 PEAL_INFO=1)
wanted=("MTU 512")
job passes "link=roce+mtu=4096" "$ring"

# Queue pairs as the card has them: time stamps of a clock that is the time of day, or ticks; the partition that the
# subnet manager gave full membership of, wherever it is in the table, or the one that is asked for; queues of a bond.
# All but "free" fail at 438a779.
job passes "clock=real" "$ring"
job passes "link=roce+clock=real link=roce+clock=both" "$ring"
job passes "clock=free" "$ring"
with=(PEAL_INFO=1)
wanted=("service level 0, partition key 0x8001")
job passes "pkeys=0x0002,0,0x8001 pkeys=0x8001" "$ring"
with=(PEAL_PKEY=0x5)
job passes "pkeys=0xffff,0x8005 pkeys=0x0001,0x0005,0x8005" "$ring"
with=(PEAL_TRANSPORT=proxy)
job passes "pkeys=0x0002,0,0x8001 pkeys=0x8001" "$ring"
with=(PEAL_INFO=1)
wanted=("traffic class 0, 2 bonded ports")
job passes "link=roce+bond=2" "$ring"

# The order in which WRITEs are placed, and what signals therefore are.
with=(PEAL_INFO=1)
wanted=("signals: set by 8-byte swaps: mlx5_0 of PE 0 may place WRITEs out of order (no ooo_sl_mask says otherwise; no dp_ordering_force)")
job passes "link=ib" "$ring"
with=(PEAL_INFO=1 PEAL_SERVICE_LEVEL=2)
wanted=("signals: set by WRITEs: mlx5_0 of PE 0 places WRITEs in order (service level 2 is outside ooo_sl_mask 0xfffb)")
job passes "ooo_sl=0xfffb" "$ring"
with=(PEAL_INFO=1)
wanted=("set by 8-byte swaps: mlx5_0 of PE 1 may place WRITEs out of order (service level 0 is in ooo_sl_mask 0x1; ")
job passes "ooo_sl=0 ooo_sl=1" "$ring"
with=(PEAL_INFO=1 PEAL_SIGNAL_OPS=write)
wanted=("signals: set by WRITEs, order forced: mlx5_0 of PE 0 may place WRITEs out of order")
job passes "force_order=yes" "$ring"
with=(PEAL_INFO=1 PEAL_SIGNAL_OPS=atomic)
wanted=("signals: set by 8-byte swaps: mlx5_0 of PE 0 places WRITEs in order")
job passes "ooo_sl=0" "$ring"
with=(PEAL_INFO=1)
wanted=("atomics wait for what is ahead of them, as on PE 1: atomics are PCI Express AtomicOps")
job passes "link=ib pci_atomics=yes" "$ring"
with=(PEAL_SIGNAL_OPS=write)
wanted=("PEAL_SIGNAL_OPS=write: mlx5_0 of PE 1 may place WRITEs out of order" "auto, atomic and strong send signals as atomics")
job fails "force_order=yes link=ib" "$ring"
with=(PEAL_INFO=1)
wanted=("takes WRITEs in any order (dp_ordering_ooo_rw_rc)")
job passes "ooo_rw=yes" "$ring"
job passes "ooo_rw=yes link=ib" "$ring"
# Keys with relaxed ordering only: no other is asked for, and no word is a WRITE; by verbs nobody tells (fails at 3a0dce1).
with=(PEAL_INFO=1)
wanted=("set by 8-byte swaps: mlx5_0 of PE 1 takes memory keys with relaxed ordering only")
job passes "ooo_sl=0 ooo_sl=0+relaxed_only=yes" "$ring"
with=(PEAL_TRANSPORT=proxy)
job passes "relaxed_only=yes" "$ring"
# PEs whose first NICs do not meet take others that do; links of different rates are told (both fail at 48bae8c).
wanted=("mlx5_0 is left out and mlx5_1 used: mlx5_0 is InfiniBand, and all PEs can go by Ethernet")
job passes "link=ib;link=roce link=roce" "$ring"
wanted=("PE 0 goes by mlx5_0 at 100 Gb/s and PE 1 by mlx5_0 at 400: transfers between such")
job passes "rate=100 rate=400" "$ring"
with=(PEAL_SIGNAL_OPS=writes)
wanted=("PEAL_SIGNAL_OPS" "one of auto write atomic strong")
job fails "link=ib" "$ring"

# NICs that kernels cannot drive: by a CPU thread, said once, also where only one PE's is such; not where it is asked for
# by name. Of several NICs the one that is down is left out.
with=(PEAL_TRANSPORT=auto PEAL_INFO=1)
wanted=("peal[0] nic: kernels cannot drive mlx5_0: mlx5dv_open_device(mlx5_0) with DEVX"
  "PEAL_TRANSPORT=proxy starts so without this warning; likewise PE 1"
  "PEs 0-1: proxy (PEAL_TRANSPORT=auto, kernels on a CPU; mlx5dv_open_device(mlx5_0)")
job passes "refuse=devx" "$ring"
wanted=("without this warning")
with=(PEAL_TRANSPORT=auto)
job passes "refuse=devx link=ib" "$ring"
with=(PEAL_TRANSPORT=auto PEAL_INFO=1)
wanted=("PEs 0-1: ibgda (PEAL_TRANSPORT=auto, kernels on a CPU)")
job passes "link=ib refuse=devx" "$ring"
wanted=("mlx5dv_open_device(mlx5_0) with DEVX" "Operation not supported" "UCTX_EN"
  "PEAL_TRANSPORT=proxy (or auto) lets a CPU thread drive mlx5_0")
job fails "refuse=devx" "$ring"
with=(PEAL_INFO=1)
wanted=("mlx5_0 is left out and mlx5_1 used: port 1 of mlx5_0 is not active (state 1)" "mlx5_1 port 1, InfiniBand")
job passes "state=down;devices=1 link=ib" "$ring"
with=(PEAL_HCA=mlx5_0,mlx5_1)
wanted=("port 1 of mlx5_0 is not active (state 1): bring its link up, or choose another NIC by PEAL_HCA")
job fails "state=down;devices=1 devices=2" "$ring"

# Mistakes, in words.
with=(PEAL_GID_INDEX=2)
wanted=("GID index 2 of mlx5_0 port 1 cannot be used, it is not RoCE v2; it has index 0: RoCE v1 fe80::"
  "set PEAL_GID_INDEX to one of them or to auto")
job fails "link=roce" "$ring"
wanted=("PE 0 (InfiniBand, LID " ") and PE 1 (Ethernet, GID ::ffff:10.112." "cannot be connected" "PEAL_HCA")
job fails "link=ib link=roce" "$ring"
with=(PEAL_HCA=mlx5_0,mlx5_1) # rail 0 would do
wanted=("PE 0 (InfiniBand, LID " ") and PE 1 (Ethernet, GID ::ffff:10.112." "cannot be connected" "PEAL_HCA")
job fails "devices=2 devices=1;link=roce" "$ring"
wanted=("cannot be connected: IPv4 and IPv6 addresses do not meet" "PEAL_GID_INDEX")
job fails "link=roce link=roce+gids=v2:ipv6" "$ring"
wanted=("port 1 of mlx5_0 is not active (state 1)")
job fails "state=down" "$ring"
wanted=("PE 0 (InfiniBand, LID " "partition key 0x8001) and PE 1 (" "partition key 0x8002)" "PEAL_PKEY")
job fails "pkeys=0x8001 pkeys=0x8002" "$ring"
wanted=("PE 0 (" ") and PE 1 (" "two limited members of a partition do not meet")
job fails "pkeys=0x0001" "$ring"
with=(PEAL_PKEY=7)
wanted=("PEAL_PKEY=0x7: mlx5_0 port 1 is no member of that partition; it has index 0: 0xffff")
job fails "link=ib" "$ring"
with=(PEAL_SERVICE_LEVEL=8)
wanted=("service level 8" "0 to 7 (PEAL_SERVICE_LEVEL)")
job fails "link=roce" "$ring"

exit $((failures != 0))
