#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# doctor_cli_test.sh DOCTOR: the program on whatever machine this is: its JSON parses and agrees with its exit code, a
# planted defect fails, bad arguments are refused.
set -euo pipefail
doctor=$1

# agrees CODE JSON: every level is known, warnings have remedies, the counts and the exit code follow.
agrees() {
  python3 - "$1" "$2" <<'PYTHON'
import json, sys
code, report = int(sys.argv[1]), json.loads(sys.argv[2])
lines = report["findings"]
assert len(lines) >= 17, lines
for line in lines:
    assert set(line) == {"check", "subject", "level", "found", "remedy"}, line
    assert (line["level"] in ("warn", "fail")) == bool(line["remedy"]), line
for level in ("ok", "skip", "warn", "fail"):
    assert report[level] == sum(line["level"] == level for line in lines), level
assert code == (1 if report["fail"] else 0), code
PYTHON
}

code=0
report=$("$doctor" --json) || code=$?
agrees $code "$report"
table=$("$doctor") || [ $? = 1 ]
tail -n 1 <<<"$table" | grep -qE '^[0-9]+ ok, [0-9]+ skip, [0-9]+ warn, [0-9]+ fail$'

code=0
report=$(PEAL_HEAP_SIZE=nonsense "$doctor" --json) || code=$?
agrees $code "$report"
[ $code = 1 ]
[[ $report == *PEAL_HEAP_SIZE* ]]

code=0
"$doctor" --nonsense 2>/dev/null || code=$?
[ $code = 2 ]
"$doctor" --help | grep -q -- --json
echo "doctor: exit codes and JSON agree"
