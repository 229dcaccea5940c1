# SPDX-License-Identifier: Apache-2.0
"""The file of one comparison: a row a line, JSON; the first line is about the run and its machine.

    {"date": ..., "command": ..., "machine": {...}, "nvshmem": ..., "clock_step_ns": {...}, "failures": [...]}
    {"side": "peal", "op": "put", "scope": "block", "bytes": 8, ...}              rows of peal_side, nvshmem_side, raw_side
    {"benchmark": "latency", ...}                                                  of peal's own programs

The ratio table is not in it: bars.compare() makes it of the rows.
"""
import json


def write(path, about, rows, programs):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in [about, *rows, *programs]))


def read(path):
    """(about, rows of the sides, rows of the programs)"""
    about, *lines = map(json.loads, path.read_text().splitlines())
    return about, [line for line in lines if "side" in line], [line for line in lines if "side" not in line]
