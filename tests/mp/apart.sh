#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# apart.sh PROGRAM [ARGUMENTS]: runs it as on a host of its own: its software NIC is on a fabric that nobody else is on,
# and has a loopback address, 127.0.0.0/8 by process, over which NICs of other such programs reach it (docs/roce.md).
export PEAL_SOFTNIC_FABRIC=apart-$$
export PEAL_SOFTNIC_UDP=127.$((64 + ($$ >> 16 & 63))).$(($$ >> 8 & 255)).$(($$ & 255))
exec "$@"
