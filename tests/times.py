#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Where the time of tools/test goes, read from the profiles that Bazel wrote and the seconds of other steps.

times.py FOLDER     the table of docs/testing.md: a row for each kind of step, with its steps, seconds of all of them
                    together and the slowest; tools/test leaves its FOLDER in build/times

FOLDER holds NAME.profile, one for each run of Bazel (plain, asan, tsan), NAME.cpu, the CPU seconds of that run, and
NAME.seconds of other steps. Seconds are of the wall's clock, added up, where nothing else is said: as many steps of a
run are side by side as the machine has cores.
"""
import collections
import json
import pathlib
import re
import sys

# What a step of Bazel is, by the words that its profile has for it: the first row that fits.
KINDS = (
    (r"Testing //tests/([a-z_]+)", r"run tests/\1"),
    (r"Testing //", "run other tests"),
    (r"Compiling .* with nvcc", "compile CUDA (nvcc)"),
    (r"(Compiling .* with clang|Linking .*_fuzz$)", "compile for libFuzzer (clang)"),
    (r"Compiling (external/|googletest/)", "compile GoogleTest"),
    (r"Compiling (tests|perf|examples|compat/examples)/", "compile tests, benchmarks, examples"),
    (r"Compiling kernels/", "compile the product: kernels/"),
    (r"Compiling ", "compile the product: all else"),
    (r"(Linking|Joining) ", "link"),
)


def kind_of(step):
    for pattern, kind in KINDS:
        found = re.match(pattern, step)
        if found:
            return found.expand(kind)
    return "all else"


def steps_of(profile):
    """Yields (seconds, what) of every action of one run of Bazel."""
    for event in json.loads(profile.read_text())["traceEvents"]:
        if event.get("cat") == "action processing" and "dur" in event:
            yield event["dur"] / 1e6, event["name"]


def steps(folder):
    """Yields (run, seconds, what) of all that `folder` knows of."""
    for profile in sorted(folder.glob("*.profile")):
        for seconds, what in steps_of(profile):
            yield profile.stem, seconds, what
    for file in sorted(folder.glob("*.seconds")):
        yield file.stem, float(file.read_text()), file.stem


def slowest(folder, count=10):
    """One line with the slowest steps of all runs."""
    first = sorted(((s, what, run) for run, s, what in steps(folder)), reverse=True)[:count]
    names = (f"{s:.0f} s {what}{'' if run in ('plain', what) else f' ({run})'}" for s, what, run in first)
    return "slowest: " + "; ".join(names)


def table(folder):
    rows = collections.defaultdict(list)
    for run, seconds, what in steps(folder):
        rows[run, what if run == what else kind_of(what)].append((seconds, what))
    yield "| run | kind of step | steps | seconds of all | the slowest |"
    yield "|---|---|---|---|---|"
    for (run, kind), found in sorted(rows.items(), key=lambda row: (row[0][0], -sum(s for s, _ in row[1]))):
        worst, what = max(found)
        yield f"| {run} | {kind} | {len(found)} | {sum(s for s, _ in found):.0f} | {what}, {worst:.0f} |"
    for file in sorted(folder.glob("*.cpu")):
        yield f"| {file.stem} | all of it, seconds of CPU | | {int(file.read_text())} | |"


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    print("\n".join(table(pathlib.Path(sys.argv[1]))))
