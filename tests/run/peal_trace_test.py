#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""peal_trace_test.py <peal_trace.py>: what peal-trace makes of files, and what it refuses."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

PROGRAM = pathlib.Path(sys.argv[1]).resolve()


def call(of, name, begin, length, **args):
    return {"ph": "X", "name": name, "cat": name, "pid": of, "tid": 1, "ts": begin, "dur": length,
            "args": {"context": 0, "status": "ok", **args}}


def send(pe, begin, value, adds=0, tid=1):
    return {**call(pe, "put_signal", begin, 1, pe=1 - pe, signal="heap+0x40", value=value, adds=adds), "tid": tid}


def see(pe, begin, length, saw):
    return call(pe, "signal_wait_until", begin, length, pe=pe, at="heap+0x40", saw=saw)


def trace(pe, events, clock="one", overwritten=0, pes=2):
    return {"peal": {"version": 1, "pe": pe, "pes": pes, "clock": clock, "overwritten": overwritten},
            "traceEvents": [{"ph": "M", "name": "process_name", "pid": pe, "args": {"name": f"PE {pe}"}}, *events]}


def run(*traces, closed=()):
    with tempfile.TemporaryDirectory() as folder:
        paths = []
        for i, one in enumerate(traces):
            path = pathlib.Path(folder) / f"{i}.json"
            path.write_text(one if isinstance(one, str) else json.dumps(one))
            paths.append(str(path))
        return subprocess.run([sys.executable, PROGRAM, *paths], capture_output=True, text=True, check=False,
                              preexec_fn=lambda: [os.close(fd) for fd in closed])


def merged(*traces):
    done = run(*traces)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["traceEvents"], done.stderr


def arrows(events):
    begins = {event["id"]: event for event in events if event["ph"] == "s"}
    return [(begins[event["id"]]["ts"], event["ts"]) for event in events if event["ph"] == "f"]


def refused(words, *traces):
    done = run(*traces)
    assert done.returncode == 1 and words in done.stderr and done.stdout == "", (words, done)
    assert "Traceback" not in done.stderr, done.stderr


# One process a PE, events in the order of time, an arrow to the wait.
events, told = merged(trace(1, [see(1, 11, 4, 7)]), trace(0, [send(0, 10, 7), call(0, "quiet", 12, 1)]))
assert [event["name"] for event in events if event["ph"] == "X"] == ["put_signal", "signal_wait_until", "quiet"]
assert {event["pid"] for event in events if event["ph"] == "M"} == {0, 1}
assert arrows(events) == [(10, 15)] and told == "", (events, told)

# Not where two signals wrote the value, one came later, calls are missing, or another PE's file is.
assert arrows(merged(trace(0, [send(0, 10, 7), send(0, 11, 7)]), trace(1, [see(1, 11, 4, 7)]))[0]) == []
assert arrows(merged(trace(0, [send(0, 16, 7)]), trace(1, [see(1, 11, 4, 7)]))[0]) == []
assert arrows(merged(trace(0, [send(0, 10, 7)], overwritten=1), trace(1, [see(1, 11, 4, 7)]))[0]) == []
assert arrows(merged(trace(0, [send(0, 10, 7)], pes=3), trace(1, [see(1, 11, 4, 7)], pes=3))[0]) == []

# Signals that add: one lane's, in order; several lanes' are in no order.
adds = [send(0, 10, 1, adds=1), send(0, 12, 1, adds=1)]
assert arrows(merged(trace(0, adds), trace(1, [see(1, 11, 9, 2)]))[0]) == [(12, 20)]
assert arrows(merged(trace(0, [adds[0], {**adds[1], "tid": 2}]), trace(1, [see(1, 11, 9, 2)]))[0]) == []

# Other clocks are set by barriers.
ours = [call(0, "barrier_all", 100, 10, number=1), call(0, "barrier_all", 200, 10, number=2)]
theirs = [call(1, "barrier_all", 1095, 10, number=1), call(1, "barrier_all", 1200, 10, number=2),
          call(1, "barrier_all", 1300, 10, number=3)]
events, told = merged(trace(0, ours, "a"), trace(1, theirs, "b"))
assert [event["ts"] for event in events if event["ph"] == "X" and event["pid"] == 1] == [97.5, 202.5, 302.5], events
assert "PE 1: its clock was set by 2 barriers, which then end up to 2.500 us apart" in told, told
# Without standard error what it has to say goes nowhere: it was in the midst of the traces.
quiet = run(trace(0, ours, "a"), trace(1, theirs, "b"), closed=(2,))
assert quiet.returncode == 0 and json.loads(quiet.stdout)["traceEvents"] == events, quiet
refused("no sync_all or barrier_all that both have recorded", trace(0, ours, "a"), trace(1, theirs[2:], "b"))

refused("no trace", "this is no JSON")
refused("no trace of a PE", "{}")
refused("no trace of a PE", "[1]")
refused("no trace of a PE", '{"traceEvents":[]}')
refused("PE 0 again", trace(0, []), trace(0, []))
refused("of a job of 3 PEs", trace(0, []), trace(1, [], pes=3))
refused("version 2", {**trace(0, []), "peal": {"version": 2, "pe": 0, "pes": 1, "clock": ""}})
refused("a file is damaged", trace(0, [{"ph": "X"}]), trace(1, []))
gone = subprocess.run([sys.executable, PROGRAM, "/nowhere.json"], capture_output=True, text=True, check=False)
assert gone.returncode == 1 and "peal-trace: /nowhere.json: No such file or directory" in gone.stderr, gone
none = subprocess.run([sys.executable, PROGRAM], capture_output=True, text=True, check=False)
assert none.returncode == 2 and "FILE" in none.stderr, none
print("peal-trace: ok")
