#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How start-up, memory, descriptors, threads and barriers grow with the number of PEs, all of them processes here.

    bazel build //tests/hosts:scale_pe //run:peal-run
    tests/hosts/scale.py --pes 2 8 32 64 128 256        one host: rows of Markdown for docs/scale.md
    tests/hosts/scale.py --pes 64 --hosts 4             PEs in turn on network namespaces, the software NIC by UDP

A row has the largest of all PEs, of memory the mean; PSS is what of it counts for one PE where PEs share pages. Seconds
are those of the whole job as its user sees it.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import namespaces

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "bazel-bin/tests/hosts/scale_pe"
HEADER = ("PEs", "how", "job, s", "start, s", "first barrier, s", "barrier, ms", "VmRSS, MiB", "PSS, MiB",
          "descriptors of PE 0", "of others", "threads")
WAYS = {
    "mapped": {"PEAL_TRANSPORT": "p2p"},
    "NIC": {"PEAL_TRANSPORT": "ibgda"},
    "NIC, lazy": {"PEAL_TRANSPORT": "ibgda", "PEAL_CONNECT": "lazy"},
    "NIC, eager": {"PEAL_TRANSPORT": "ibgda", "PEAL_CONNECT": "eager"},
}
SETTINGS = {"PEAL_HEAP_SIZE": "1M", "PEAL_TEAM_MEMORY": "1M", "PEAL_BOOTSTRAP_TIMEOUT": "300s", "SIMT_DEVICES": "1"}
JOB_SECONDS = 900


def row(lines, how, seconds):
    pes = [json.loads(line) for line in lines if line.startswith("{")]
    if not pes or len(pes) != pes[0]["pes"]:
        why = [line for line in lines if line.startswith("peal: ")] or lines or ["nothing was said"]
        return (len(pes), how, f"failed after {seconds:.1f}: {why[0]}")

    def most(what):
        return max(pe[what] for pe in pes)

    def mean(what):
        return sum(pe[what] for pe in pes) / len(pes)

    rest = max((pe["descriptors"] for pe in pes if pe["pe"] != 0), default=0)
    first = next(pe["descriptors"] for pe in pes if pe["pe"] == 0)
    return (len(pes), how, f"{seconds:.1f}", f"{most('start_ms') / 1000:.2f}", f"{most('first_ms') / 1000:.2f}",
            f"{most('barrier_us') / 1000:.2f}",
            f"{mean('rss_kib') / 1024:.1f}", f"{mean('pss_kib') / 1024:.1f}", first, rest, most("threads"))


def on_one_host(pes, how, barriers):
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        begin = time.monotonic()
        job = subprocess.Popen([ROOT / "bazel-bin/run/peal-run", "-n", str(pes), "--no-prefix", "--no-pty", PROGRAM, str(barriers)],
                               env={**os.environ, **SETTINGS, **WAYS[how], "PEAL_SOFTNIC_DIR": folder},
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        told, _ = job.communicate(timeout=JOB_SECONDS)
        return row(told.splitlines(), how, time.monotonic() - begin)


def on_hosts(pes, how, hosts, barriers):
    import hosts_test  # pylint: disable=import-outside-toplevel
    where = [1 + pe * hosts // pes for pe in range(pes)]
    with tempfile.TemporaryDirectory() as folder:
        with namespaces.Namespaces(hosts, 4, [PROGRAM], pathlib.Path(folder)) as machines:
            begin = time.monotonic()
            pes = hosts_test.start(machines, where, f"scale_pe {barriers}", {**SETTINGS, **WAYS[how]})
            machines.wait(lambda: all(pe.status is not None for pe in pes), JOB_SECONDS, "the job")
            lines = [line for pe in pes for line in pe.lines]
            return row(lines, f"{hosts} hosts, {how}", time.monotonic() - begin)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--pes", type=int, nargs="+", default=[2, 8, 32])
    parser.add_argument("--how", nargs="+", default=["mapped", "NIC", "NIC, eager"], choices=WAYS)
    parser.add_argument("--hosts", type=int, default=1)
    parser.add_argument("--barriers", type=int, default=10)
    asked = parser.parse_args()
    if asked.hosts > 1:
        namespaces.enter()
    print(f"| {' | '.join(HEADER)} |\n|{'---|' * len(HEADER)}", flush=True)
    for pes in asked.pes:
        for how in asked.how:
            cells = on_one_host(pes, how, asked.barriers) if asked.hosts == 1 else on_hosts(pes, how, asked.hosts, asked.barriers)
            print(f"| {' | '.join(map(str, cells))} |", flush=True)


if __name__ == "__main__":
    main()
