#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# gpu_memory.sh VARIANTS PROGRAM [ARGUMENTS]: runs a test of the NIC once for each of the VARIANTS,
# between which are spaces. One is names of variables with commas between: what PEAL_TEST_REGIONS
# and PEAL_TEST_QUEUES name counts as memory of a GPU, which the engine has copied
# (tests/unit/softnic/support.h); NAME=VALUE is set as it stands.
variants=$1
shift
for variant in $variants; do
  echo "$variant"
  (
    IFS=,
    for each in $variant; do
      case $each in
        *=*) export "${each?}" ;;
        *) export "$each=gpu" ;;
      esac
    done
    unset IFS
    exec "$@"
  ) || exit
done
