#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# tests/gpu/hosts.sh BUNDLE [PROGRAM...]: programs of BUNDLE/bin as two PEs with kernels on GPUs, on two hosts that have
# only Ethernet: network namespaces of this machine, joined by a virtual cable. CPU threads post for the kernels
# (PEAL_TRANSPORT=proxy), the software NIC goes by UDP and reaches the GPUs' memory by copies. Each host has a GPU of its
# own where the machine has two, else both have the same one.
#
#   BUNDLE   a folder that tools/bundle made; default: the folder of this script
#   PROGRAM  default: hello ring halo all_to_all ring_all_reduce, which check what they get
#
# Needs root, util-linux and iproute2. Ends with "N passed, N failed".
set -uo pipefail
bundle=$(realpath "${1:-$(dirname "${BASH_SOURCE[0]}")}")
shift
[ -x "$bundle/bin/peal-run" ] || { sed -n '4,12s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; exit 2; }
[ "$(id -u)" = 0 ] || { echo "hosts.sh: namespaces of the network want root" >&2; exit 2; }
command -v ip >/dev/null || { echo "hosts.sh: no ip: install iproute2" >&2; exit 2; }
programs=("${@:-}")
[ $# != 0 ] || programs=(hello ring halo all_to_all ring_all_reduce)
gpus=$(nvidia-smi -L | wc -l)
scratch=$(mktemp -d)
holders=()
# unshare takes no SIGTERM while its child runs, which ends with it.
trap 'kill -KILL "${holders[@]}" 2>/dev/null; rm -rf "$scratch"' EXIT

# A host is a process that waits, with everything of its own that tells hosts apart.
for host in 1 2; do
  mkfifo "$scratch/$host"
  unshare --net --uts --ipc --mount --pid --fork --kill-child --mount-proc sh -c \
    "hostname host$host; mount -t tmpfs shm /dev/shm; echo up >$scratch/$host; exec sleep infinity" &
  holders+=($!)
  disown # else bash tells of its end
  read -r -t 30 _ <"$scratch/$host" || { echo "hosts.sh: no namespaces here" >&2; exit 2; }
  pgrep -P "${holders[-1]}" >"$scratch/pid$host"
done
ip link add hosts1 type veth peer name hosts2
for host in 1 2; do
  pid=$(<"$scratch/pid$host")
  ip link set hosts$host netns "$pid"
  nsenter -t "$pid" --net sh -c "ip link set lo up; ip address add 10.0.1.$host/24 dev hosts$host; ip link set hosts$host up"
done

# The remote shell of peal-run: HOST COMMAND.
cat >"$scratch/enter" <<ENTER
#!/bin/sh
number=\${1#host}
export CUDA_VISIBLE_DEVICES=\$(((number - 1) % $gpus))
exec nsenter -t "\$(cat "$scratch/pid\$number")" --net --uts --ipc --mount --pid sh -c "\$2"
ENTER
chmod +x "$scratch/enter"

export LD_LIBRARY_PATH="$bundle/lib:$bundle/softnic${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
export PEAL_TRANSPORT=proxy PEAL_SOFTNIC_UDP=10.0.1.1,10.0.1.2 PEAL_TIMEOUT=${PEAL_TIMEOUT:-60s}
passed=0 failed=0
cd "$bundle" || exit 2
for program in "${programs[@]}"; do
  if timeout -k 5 120 bin/peal-run --hosts host1,host2 --rsh "$scratch/enter" --interface hosts1 -x LD_LIBRARY_PATH \
    "bin/$program" >"$scratch/said" 2>&1; then
    passed=$((passed + 1))
    echo "ok      $program"
  else
    failed=$((failed + 1))
    echo "FAILED  $program"
    tail -n 20 "$scratch/said"
  fi
done
echo "$passed passed, $failed failed"
exit $((failed != 0))
