#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# host_words_test.sh PROGRAM FAKE_CUDA FAKE_GDRAPI: its rows on a driver and a GDRCopy that are fakes, and what it says
# where a way is not there.
set -euo pipefail
program=$1 cuda=$(realpath "$2") gdrapi=$(realpath "$3")
here() { LD_PRELOAD=$cuda "$program" --iterations 20 "$@"; }

rows=$(here --json --gdrcopy "$gdrapi")
python3 - "$rows" <<'PYTHON'
import json, sys
rows = [json.loads(line) for line in sys.argv[1].splitlines()]
assert {row["way"] for row in rows} == {"stream", "gdrcopy"}, rows
assert len(rows) == 2 * 16, len(rows)
for row in rows:
    assert row["errors"] == 0 and row["verified"] == 20, row
    assert row["usec_min"] <= row["usec_median"] <= row["usec_p99"], row
    assert ("GDRCopy 2.6" in row["how"]) == (row["way"] == "gdrcopy"), row
PYTHON
here --gdrcopy "$gdrapi" | grep -qE '^gdrcopy +load +8 '

said=$(here --gdrcopy /absent.so 2>&1 >/dev/null)
[[ $said == *"the way gdrcopy is not available here: "*"dlopen(/absent.so)"* ]]
code=0
here --way gdrcopy --gdrcopy /absent.so >/dev/null 2>&1 || code=$?
[ $code = 1 ]
code=0
here --way telepathy 2>/dev/null || code=$?
[ $code = 2 ]
code=0
said=$("$program" --way stream 2>&1 >/dev/null) || code=$?  # a machine with a GPU has an answer
[ $code = 0 ] || [[ $said == *"need a GPU"* ]]
echo "host_words: rows and refusals as they should be"
