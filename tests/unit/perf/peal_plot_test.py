#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""peal_plot_test.py <peal_plot.py>: which rows become which series, what is refused, and where matplotlib is, a drawing."""
import importlib.util
import json
import pathlib
import subprocess
import sys
import tempfile

PROGRAM = pathlib.Path(sys.argv[1]).resolve()
SPEC = importlib.util.spec_from_file_location("peal_plot", PROGRAM)
plot = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(plot)

CSV = """# 8 bytes: 50 % done
benchmark,op,scope,bytes,bidirectional,mops,verified,version,host,cpu,date
message_rate,put,thread,8,false,2.5,true,0.1.0,17,"AMD, 2 cores",2026-11-27T14:22:37Z
benchmark,op,scope,bytes,bidirectional,mops,verified,version,host,cpu,date
message_rate,put,thread,8,true,3.5,true,0.1.0,17,"AMD, 2 cores",2026-11-26T14:22:37Z
"""


def latency(size, usec, op="put", **more):
    return {"benchmark": "latency", "op": op, "scope": "thread", "bytes": size, "usec_median": usec, "usec_p99": 2 * usec,
            "repeats": 3, "usec_median_repeats_min": usec / 2, "usec_median_repeats_max": 2 * usec, "verified": True,
            "version": "0.1.0", "host": "a", "date": "2026-11-27T14:22:37Z", **more}


def lines(*rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


def run(*texts, options=(), blind=False):
    with tempfile.TemporaryDirectory() as folder:
        paths = []
        for i, text in enumerate(texts):
            paths.append(pathlib.Path(folder) / f"{i}.rows")
            paths[-1].write_text(text)
        out = pathlib.Path(folder) / "out.svg"
        # A folder of that name hides an installed one; -c because a program's own folder comes first in its path.
        if blind:
            (pathlib.Path(folder) / "matplotlib.py").write_text("raise ImportError('No module named matplotlib')\n")
        done = subprocess.run([sys.executable, PROGRAM, *paths, "-o", out, *options], capture_output=True, text=True,
                              check=False, cwd=folder, env={"PYTHONPATH": folder})
        return done, out.read_text() if out.exists() else ""


def refused(words, *texts, **more):
    done, _drawn = run(*texts, **more)
    assert done.returncode != 0 and words in done.stderr and done.stdout == "", (words, done)
    assert "Traceback" not in done.stderr, done.stderr


# Numbers and switches of CSV are JSON's; names of machines stay text, though they look like numbers.
rows = plot.parsed("x", CSV)
assert [row["mops"] for row in rows] == [2.5, 3.5] and rows[1]["bidirectional"] is True, rows
assert rows[0]["host"] == "17" and rows[0]["cpu"] == "AMD, 2 cores", rows
assert list(plot.series_of(rows)) == ["put, bidirectional False", "put, bidirectional True"]
assert plot.caption(rows) == "peal 0.1.0, 17, AMD, 2 cores, 2026-11-26", plot.caption(rows)

# A series is what agrees in all but bytes, in their order.
rows = [latency(64, 2.0), latency(8, 1.0), latency(8, 3.0, op="get")]
assert {name: [row["bytes"] for row in points] for name, points in plot.series_of(rows).items()} == {"put": [8, 64], "get": [8]}
both = [row | {"file": name} for name in ("old", "new") for row in rows[:2]]
assert list(plot.series_of(both)) == ["put, old", "put, new"]
parts = [rows[0] | {"file": "large"}, rows[1] | {"file": "small"}]
assert list(plot.series_of(parts)) == ["put"], "the same series in two files"
hosts = [latency(8, 1.0, scope="block", blocks=1), latency(8, 2.0, scope="stream", blocks=0)]
assert list(plot.series_of(hosts)) == ["put, block, blocks 1", "put, stream"]
assert [plot.size_text(size) for size in (8, 1024, 1536, 65536, 1 << 20)] == ["8", "1K", "1536", "64K", "1M"]

refused("no rows; give what a benchmark printed", "# nothing\n")
refused("no row of peal-latency, peal-bandwidth", '{"side": "peal"}\n')
refused("no row of peal-latency", "a,b\n1,2\n")
refused("a line is no JSON", '{"benchmark": \n')
refused("without bytes or usec_median", '{"benchmark": "latency", "verified": true}\n')
refused("found errors in its data", lines(latency(8, 1.0) | {"verified": False}))
refused("must end with one of .svg, .png, .pdf", lines(latency(8, 1.0)), options=("-o", "out.jpeg2"))
refused("no-such-file: No such file", options=("no-such-file",))
refused("needs matplotlib (No module named matplotlib): apt-get install", lines(latency(8, 1.0)), blind=True)

if importlib.util.find_spec("matplotlib"):
    barrier = {"benchmark": "collectives", "op": "barrier", "bytes": 0, "usec": 3.0, "verified": True}
    done, drawn = run(lines(*rows, barrier, barrier | {"op": "all_reduce", "bytes": 8}), CSV)
    assert done.returncode == 0 and "<svg" in drawn, done
    for words in ("latency", "message rate", "collectives", "microseconds, median", "barrier", "all_reduce", "AMD, 2 cores"):
        assert words in drawn, words
    assert run(lines(barrier))[0].returncode == 0  # nothing has a size
else:
    print("skipped: drawing: there is no matplotlib")
