#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# gpu_memory.sh PROGRAM [ARGUMENTS]: a test of the NIC whose regions count as memory of a GPU, which
# the engine has copied (tests/unit/softnic/support.h).
PEAL_TEST_REGIONS=gpu exec "$@"
