#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs rdma-core's own tests, as Debian ships them, against the software NIC: on InfiniBand, then on RoCE.
#
#   $1 one of the software NIC's libraries
#   $2 pyverbs_judge.py    $3 the list of what must pass
#
# Skipped, with the reason, where the package is missing or was installed without its documentation.
set -eu

skip() {
  echo "skipped: $1"
  printf '<testsuites><testsuite name="pyverbs"><testcase name="pyverbs"><skipped message="%s"/>%s' \
    "$1" '</testcase></testsuite></testsuites>' >"$XML_OUTPUT_FILE"
  exit 0
}

python=/usr/bin/python3 # the one that Debian's pyverbs is built for
shipped=/usr/share/doc/rdma-core/tests
LD_LIBRARY_PATH=$(cd "$(dirname "$1")" && pwd)
PEAL_SOFTNIC_DIR=$TEST_TMPDIR # a fabric of this test's own
export LD_LIBRARY_PATH PEAL_SOFTNIC_DIR
"$python" -c 'import pyverbs.device, scapy' 2>/dev/null || skip "no packages python3-pyverbs and python3-scapy"
[ -d "$shipped" ] || skip "python3-pyverbs without its documentation: no $shipped"

mkdir "$TEST_TMPDIR/suite"
cp -r "$shipped" "$TEST_TMPDIR/suite/"
chmod -R u+w "$TEST_TMPDIR/suite"
find "$TEST_TMPDIR/suite" -name '*.gz' -exec gunzip {} +

status=0
for link in ib roce; do
  PEAL_SOFTNIC_PRESENT="link=$link" "$python" "$2" "$TEST_TMPDIR/suite" "$3" "$link" || status=1
done
exit $status
