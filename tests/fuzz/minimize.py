#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Adds to a target's corpus what a run has found, as few inputs as reach the same code.

minimize.py PROGRAM FOUND... CORPUS     keeps what CORPUS has; copies from the FOUND folders what reaches more
"""
import concurrent.futures
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

MAX_BYTES = 2048
MAX_FILES = 24  # that one call adds: what reaches most. A run soon finds the rest again.


def merge(program, folders, target, record):
    options = ["-merge=1", f"-merge_control_file={record}", f"-max_len={MAX_BYTES}"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    subprocess.run([program, *options, str(target), *map(str, folders)], check=True, **quiet)


def edges_of(program, file):
    """What one input reaches. A merge's record tells of each input what those before it had not; so it gets one."""
    with tempfile.TemporaryDirectory() as work:
        alone, merged, record = (pathlib.Path(work) / name for name in ("alone", "merged", "record"))
        alone.mkdir()
        merged.mkdir()
        shutil.copy(file, alone)
        merge(program, [alone], merged, record)
        features = [f for line in record.read_text().splitlines() if line.startswith("FT ") for f in line.split()[2:]]
    return {int(feature) // 8 for feature in features}  # eight an edge: how often it was taken, in steps


def main(program, *folders):
    corpus = pathlib.Path(folders[-1])
    with tempfile.TemporaryDirectory() as work:
        merged = pathlib.Path(work) / "merged"
        merged.mkdir()
        merge(program, folders[:-1], merged, pathlib.Path(work) / "record")
        files = list(corpus.iterdir()) + list(merged.iterdir())
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            edges = dict(zip(files, pool.map(lambda f: edges_of(program, f), files)))
        covered = set().union(*(edges[f] for f in files if f.parent == corpus), set())
        rest = {f: edges[f] - covered for f in files if f.parent == merged}
        for _ in range(min(MAX_FILES, len(rest))):
            best = max(rest, key=lambda f: (len(rest[f]) / (256 + f.stat().st_size), f.name))
            gain = rest.pop(best)
            if not gain:
                break
            shutil.copy(best, corpus / best.name[:12])
            covered |= gain
            rest = {f: e - gain for f, e in rest.items()}
    kept = list(corpus.iterdir())
    print(f"{corpus}: {len(kept)} files, {sum(f.stat().st_size for f in kept)} bytes, {len(covered)} edges")


if __name__ == "__main__":
    main(*sys.argv[1:])
