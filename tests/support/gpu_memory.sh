#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# gpu_memory.sh VARIABLES PROGRAM [ARGUMENTS]: a test of the NIC in which what the VARIABLES name
# counts as memory of a GPU, which the engine has copied (tests/unit/softnic/support.h):
# PEAL_TEST_REGIONS, PEAL_TEST_QUEUES or both with a comma between. Others are set as they stand.
IFS=,
for each in $1; do
  case $each in
    *=*) export "${each?}" ;;
    *) export "$each=gpu" ;;
  esac
done
unset IFS
shift
exec "$@"
