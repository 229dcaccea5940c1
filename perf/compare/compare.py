#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs peal, NVSHMEM and plain kernels on the same cases, one after another on this machine, and prints the ratio table.

    perf/compare/build.sh BUILD                    NVSHMEM's side, where nvcc and the wheel are
    perf/compare/compare.py --peal BIN --nvshmem BUILD --out perf/results/NAME.json

Exit code 1 when a side failed or moved wrong data. A bar that was missed is in the table, and is not an error.
"""
import argparse
import datetime
import json
import os
import pathlib
import platform
import signal
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import bars  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
MPIRUN = ["mpirun", "--oversubscribe", "--bind-to", "none", "--mca", "btl", "self,vader", "--mca", "pml", "ob1", "--mca",
          "btl_vader_single_copy_mechanism", "none", "--mca", "plm", "isolated", "--mca", "oob_tcp_if_include", "lo"]
ENVIRONMENT = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "PEAL_HEAP_SIZE": "256M",
    # No multicast: the machine's GPUs may be shared. No search for NICs, which one machine does not need.
    "NVSHMEM_DISABLE_NVLS": "1", "NVSHMEM_REMOTE_TRANSPORT": "none", "NVSHMEM_BOOTSTRAP": "MPI",
    "NVSHMEM_SYMMETRIC_SIZE": "256M",
}
NVCC = ["nvcc", "-std=c++20", "-O3", "-rdc=true", "-gencode", "arch=compute_90,code=[sm_90,compute_90]", "-c", "-o",
        "/dev/null"]


class Failed(Exception):
    """A side could not be run to its end; the text says why."""


def output_of(command, timeout, environment=None):
    """Standard output of a program that ends by itself within `timeout` seconds; else Failed. Nothing is left running."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        child = subprocess.Popen(command, stdout=out, stderr=err, stdin=subprocess.DEVNULL, env=environment,
                                 cwd=ROOT, start_new_session=True)
        try:
            code = child.wait(timeout)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            if child.poll() is None:
                end_group(child)
        out.seek(0)
        err.seek(0)
        text, complaints = out.read(), err.read()
    if code != 0:
        ended = f"was stopped after {timeout} s" if code is None else f"ended with {code}"
        raise Failed(f"{' '.join(map(str, command))}\n  {ended}\n{text[-1500:]}{complaints[-3000:]}", text)
    return text


def end_group(child):
    """mpirun passes SIGTERM on to its processes; what remains is killed."""
    for number, seconds in ((signal.SIGTERM, 5), (signal.SIGKILL, 5)):
        try:
            os.killpg(child.pid, number)
            child.wait(seconds)
            if number == signal.SIGKILL:
                return
        except subprocess.TimeoutExpired:
            continue
        except ProcessLookupError:
            return


def rows_in(text):
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


class Comparison:
    def __init__(self, arguments):
        self.arguments = arguments
        self.rows = []
        self.clocks = {}
        self.failures = []

    # Programs.

    def program(self, side, name):
        folder = pathlib.Path(self.arguments.nvshmem if side == "nvshmem" else self.arguments.peal)
        for candidate in (folder / f"{name}_gpu", folder / name):
            if candidate.exists():
                return candidate.resolve()
        raise Failed(f"no {name}_gpu or {name} in {folder}")

    def environment(self, side):
        environment = ENVIRONMENT | os.environ | {"NVSHMEM_DISABLE_NVLS": "1"}
        libraries = self.nvshmem_home() / "lib" if side == "nvshmem" else pathlib.Path(self.arguments.peal) / "../lib"
        known = [str(libraries.resolve())] if libraries.exists() else []
        environment["LD_LIBRARY_PATH"] = ":".join(known + [p for p in [os.environ.get("LD_LIBRARY_PATH")] if p])
        return environment

    def nvshmem_home(self):
        if self.arguments.nvshmem_home:
            return pathlib.Path(self.arguments.nvshmem_home)
        for folder in map(pathlib.Path, sys.path):
            if (folder / "nvidia/nvshmem/include/nvshmem.h").exists():
                return folder / "nvidia/nvshmem"
        raise Failed("NVSHMEM is not among this python3's packages; name its folder with --nvshmem-home")

    def run_side(self, side, pes, options, timeout):
        """Adds the side's rows. Those that it printed before it failed count too."""
        command = [*MPIRUN, "-np", str(pes)]
        try:
            text = output_of([*command, self.program(side, f"{side}_side"), *options], timeout, self.environment(side))
        except Failed as failure:
            text = failure.args[1] if len(failure.args) > 1 else ""
            self.failed(f"{side}, {pes} PEs: {failure.args[0]}")
        for row in rows_in(text):
            if row["op"] == "clock":
                self.clocks[side] = row["step_ns"]
            else:
                self.rows.append(row)

    def failed(self, text):
        self.failures.append(text)
        print(f"FAILED {text}", file=sys.stderr, flush=True)

    # What is measured from outside.

    def add_row(self, side, op, pes, seconds, errors=0):
        self.rows.append({"side": side, "variant": "", "op": op, "scope": "", "bytes": 0, "blocks": 0, "threads": 0,
                          "pes": pes, "iters": 1, "repeats": len(seconds), "usec": statistics.median(seconds) * 1e6,
                          "usec_min": min(seconds) * 1e6, "usec_max": max(seconds) * 1e6, "errors": errors})

    def measure_start_up(self, pes, repeats):
        """From mpirun to the end of the first kernel of the last PE. The first round warms the file cache."""
        seconds, errors = {side: [] for side in self.sides(("peal", "nvshmem"))}, dict.fromkeys(("peal", "nvshmem"), 0)
        for turn in range(repeats + 1):
            for side in list(seconds):
                try:
                    program = self.program(side, f"start_up_{side}")
                    begin = time.time_ns()
                    found = rows_in(output_of([*MPIRUN, "-np", str(pes), program], 30, self.environment(side)))
                    if len(found) != pes:
                        raise Failed(f"{program}: {len(found)} of {pes} PEs reported")
                    errors[side] += sum(row["errors"] for row in found)
                    if turn > 0:
                        seconds[side].append((max(row["unix_ns"] for row in found) - begin) * 1e-9)
                except Failed as failure:
                    self.failed(f"start-up of {side}: {failure.args[0]}")
                    del seconds[side]
        for side, values in seconds.items():
            self.add_row(side, "start_up", pes, values, errors[side])

    def measure_compilation(self, repeats):
        """nvcc on the smallest kernel that includes the side's API, with the same flags."""
        seconds = {"peal": [], "nvshmem": []}
        try:
            flags = {"peal": ["-I", str(ROOT)], "nvshmem": ["-isystem", str(self.nvshmem_home() / "include")]}
            for turn in range(repeats + 1):
                for side, values in seconds.items():
                    begin = time.monotonic()
                    output_of([*NVCC, *flags[side], ROOT / f"perf/compare/compile_{side}.cu"], 120)
                    if turn > 0:
                        values.append(time.monotonic() - begin)
        except (Failed, FileNotFoundError) as failure:
            self.failed(f"compilation: {failure.args[0]}")
            return
        for side, values in seconds.items():
            self.add_row(side, "compile", 0, values)

    def sides(self, among=("peal", "nvshmem", "raw")):
        return [side for side in among if side in self.arguments.sides.split(",")]

    def run(self):
        a = self.arguments
        options = (["--quick"] if a.quick else []) + (["--ops", a.ops] if a.ops else []) + a.side_options
        for side in self.sides():
            self.say(f"{side}, 2 PEs")
            self.run_side(side, 2, options, a.timeout)
        more = a.np if a.np is not None else min(len(gpus()), 4)
        if more > 2 and (not a.ops or "barrier_all" in a.ops):
            for side in self.sides(("peal", "nvshmem")):
                self.say(f"{side}, barriers of {more} PEs")
                self.run_side(side, more, [*(["--quick"] if a.quick else []), "--ops", "barrier_all"], a.timeout)
        if not a.no_start_up:
            self.say("start-up")
            self.measure_start_up(2, 3 if a.quick else 5)
        if a.compile:
            self.say("compilation")
            self.measure_compilation(1 if a.quick else 3)

    def say(self, text):
        print(f"==> {text}", file=sys.stderr, flush=True)

    def result(self, begin):
        lines = bars.compare(self.rows)
        return {
            "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"),
            "command": " ".join(["perf/compare/compare.py", *sys.argv[1:]]),
            "seconds": round(time.monotonic() - begin, 1),
            "machine": machine(),
            "nvshmem": nvshmem_version(),
            "clock_step_ns": self.clocks,
            "table": lines,
            "failures": self.failures,
            "rows": self.rows,
        }


def query(*command):
    """What a program prints, or nothing where there is no such program."""
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=30, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""


def gpus():
    fields = "name,driver_version,memory.total,clocks.max.sm"
    found = query("nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader").splitlines()
    return [dict(zip(fields.split(","), map(str.strip, line.split(",")))) for line in found]


def machine():
    cpu = [line.split(":")[1].strip() for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines()
           if line.startswith("model name")]
    release = [word for word in query("nvcc", "--version").split() if word.startswith("V")]
    return {"gpus": gpus(), "cpu": cpu[0] if cpu else "", "cores": os.cpu_count(), "kernel": platform.release(),
            "nvcc": release[0] if release else "", "mpirun": query("mpirun", "--version").split("\n")[0]}


def nvshmem_version():
    from importlib import metadata
    for name in ("nvidia-nvshmem-cu13", "nvidia-nvshmem-cu12"):
        try:
            return f"{name} {metadata.version(name)}"
        except metadata.PackageNotFoundError:
            continue
    return ""


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peal", default="bazel-bin/perf/compare", help="folder of peal_side, raw_side, start_up_peal")
    parser.add_argument("--nvshmem", default="build/compare", help="folder that build.sh filled")
    parser.add_argument("--nvshmem-home", help="folder with NVSHMEM's include/ and lib/; default: python3's package")
    parser.add_argument("--out", type=pathlib.Path, help="write everything to this JSON file")
    parser.add_argument("--quick", action="store_true", help="fewer sizes and repetitions")
    parser.add_argument("--compile", action="store_true", help="time nvcc too")
    parser.add_argument("--no-start-up", action="store_true")
    parser.add_argument("--np", type=int, help="PEs of the second run of the barriers; default: GPUs, at most 4")
    parser.add_argument("--ops", help="only these, with commas between them")
    parser.add_argument("--sides", default="peal,nvshmem,raw")
    parser.add_argument("--timeout", type=float, default=120, help="seconds for one side (120)")
    parser.add_argument("side_options", nargs="*", help="handed to every side, after --")
    return parser.parse_args()


def main():
    comparison = Comparison(parse_arguments())
    begin = time.monotonic()
    comparison.run()
    result = comparison.result(begin)
    if comparison.arguments.out:
        comparison.arguments.out.parent.mkdir(parents=True, exist_ok=True)
        comparison.arguments.out.write_text(json.dumps(result, indent=1) + "\n")
    print(bars.render(result["table"]))
    errors = sum(row["errors"] for row in comparison.rows)
    print(f"\n{bars.summary(result['table'])}; {errors} errors, {len(comparison.failures)} failures")
    return 1 if errors or comparison.failures or not comparison.rows else 0


if __name__ == "__main__":
    sys.exit(main())
