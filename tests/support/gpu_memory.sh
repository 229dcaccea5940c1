#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# gpu_memory.sh VARIANTS PROGRAM [ARGUMENTS]: runs a test of the NIC once for each of the VARIANTS,
# between which are spaces. One is names of variables with commas between: what PEAL_TEST_REGIONS
# and PEAL_TEST_QUEUES name counts as memory of a GPU, which the engine has copied
# (tests/unit/softnic/support.h); NAME=VALUE is set as it stands.
refuse() {
  echo "gpu_memory.sh: $1" >&2
  exit 2
}
[ $# -ge 2 ] || refuse 'wanted: VARIANTS PROGRAM [ARGUMENTS]'
variants=$1
shift
[ -n "$(echo $variants)" ] || refuse 'VARIANTS names none, so nothing would be tested'
for each in $(echo "$variants" | tr , ' '); do
  case $each in
    PEAL_TEST_REGIONS | PEAL_TEST_QUEUES | PEAL_*=*) ;;
    *) refuse "'$each' is neither PEAL_TEST_REGIONS, PEAL_TEST_QUEUES nor a setting PEAL_NAME=VALUE" ;;
  esac
done
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
