#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# apart.sh PROGRAM [ARGUMENTS]: runs it as on a host of its own: its software NIC is on a fabric that nobody else is on,
# and has a loopback address over which NICs of other such programs reach it (docs/roce.md). The address is the first
# that is free of some by chance, 127.192.0.0 to 127.254.255.255; roce_nics_test has those below.
export PEAL_SOFTNIC_FABRIC=apart-$$-$RANDOM
PEAL_SOFTNIC_UDP=
for _ in 1 2 3 4; do
  PEAL_SOFTNIC_UDP+=${PEAL_SOFTNIC_UDP:+,}127.$((192 + RANDOM % 63)).$((RANDOM % 256)).$((RANDOM % 256))
done
export PEAL_SOFTNIC_UDP
# Over UDP nobody sees whether a peer is dead or has no CPU yet.
export PEAL_SOFTNIC_TIMEOUT_SCALE=${PEAL_SOFTNIC_TIMEOUT_SCALE:-8}
exec "$@"
