#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs peal, NVSHMEM and plain kernels on the same cases, one after another on this machine, and prints the ratio table.

    perf/compare/build.sh BUILD                    NVSHMEM's side, where nvcc and the wheel are
    perf/compare/compare.py --peal BIN --nvshmem BUILD --out perf/results/NAME.jsonl

Exit code 1 when a side failed or moved wrong data. A bar that was missed is in the table, and is not an error. The file
is written after every step, and once more on SIGTERM.
"""
import argparse
import contextlib
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
    "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "PEAL_HEAP_SIZE": "1G",
    # No multicast: the machine's GPUs may be shared. No search for NICs, which one machine does not need.
    "NVSHMEM_DISABLE_NVLS": "1", "NVSHMEM_REMOTE_TRANSPORT": "none", "NVSHMEM_BOOTSTRAP": "MPI",
    "NVSHMEM_SYMMETRIC_SIZE": "1G",
}
# Over the NIC: messages of 8 bytes by (blocks, threads, queues a peer, iterations of each agent). A warp's lanes post
# together and ring once; a put of a whole warp rings for itself.
IBGDA_RATES = {
    "ibgda_rate": ("thread", ((64, 32, 64, 2048), (132, 32, 132, 2048), (264, 32, 264, 1024))),
    "ibgda_rate_rung_one_by_one": ("warp", ((132, 32, 132, 1024), (264, 32, 264, 1024), (512, 32, 512, 512))),
}
IBGDA_OPS = "put_quiet,p_quiet,inc_quiet,fetch_add,put_signal,barrier_all"
# peal's own programs, as anybody would start them.
PROGRAMS = (("message_rate", "--op", "put", "--sizes", "8", "--blocks", "32", "--threads", "128"),
            ("latency", "--op", "put_signal", "--sizes", "8:64K"), ("latency", "--op", "get", "--sizes", "8:64K"),
            ("bandwidth", "--op", "put", "--sizes", "64K:4M"))
NVCC = ["nvcc", "-std=c++20", "-O3", "-rdc=true", "-gencode", "arch=compute_90,code=[sm_90,compute_90]", "-c", "-o",
        "/dev/null"]


class Failed(Exception):
    """A side could not be run to its end; the text says why."""


class Stop:
    """Set by SIGTERM, which also ends the program that runs at the time."""
    asked = False
    child = None

    @classmethod
    def on_signal(cls, _number, _frame):
        cls.asked = True
        if cls.child:
            cls.child.terminate()


def output_of(command, limit, environment=None):
    """Standard output of a program that ends by itself within `limit` seconds; else Failed. timeout(1) passes signals on
    to the program's group, and kills what is left of it 5 seconds later."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        Stop.child = subprocess.Popen(["timeout", "-k", "5", str(limit), *map(str, command)], stdout=out, stderr=err,
                                      stdin=subprocess.DEVNULL, env=environment, cwd=ROOT)
        try:
            code = Stop.child.wait()
        finally:
            Stop.child.terminate()  # nothing where it has ended
            Stop.child = None
        out.seek(0)
        err.seek(0)
        text, complaints = out.read(), err.read()
    if code != 0:
        ended = f"was stopped after {limit} s" if code in (124, 137) else f"ended with {code}"
        raise Failed(f"{' '.join(map(str, command))}\n  {ended}\n{text[-1500:]}{complaints[-3000:]}", text)
    return text


def rows_in(text):
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


@contextlib.contextmanager
def multi_process_service():
    """CUDA's MPS, so that a NIC's kernel and a PE's run at once on one GPU. Yields what its clients need to know."""
    with tempfile.TemporaryDirectory() as folder:
        known = {"CUDA_MPS_PIPE_DIRECTORY": f"{folder}/pipe", "CUDA_MPS_LOG_DIRECTORY": f"{folder}/log"}
        for path in known.values():
            os.mkdir(path)
        control = lambda *options, **other: subprocess.run(  # noqa: E731
            ["nvidia-cuda-mps-control", *options], env=os.environ | known, timeout=30, capture_output=True, **other)
        try:
            control("-d", check=True)
        except (OSError, subprocess.SubprocessError):
            yield {}
            return
        try:
            yield known
        finally:
            control(input=b"quit\n")


class Comparison:
    def __init__(self, arguments):
        self.begin = time.monotonic()
        self.arguments = arguments
        self.rows = []
        self.clocks = {}
        self.programs = []
        self.failures = []

    # Programs.

    def program(self, side, name):
        folder = pathlib.Path(self.arguments.nvshmem if side == "nvshmem" else self.arguments.peal)
        for candidate in (folder / f"{name}_gpu", folder / name, folder.parent / f"{name}_gpu"):
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

    def rows_of(self, what, command, timeout, environment):
        """What a program printed, also when it failed afterwards."""
        if Stop.asked:
            return []
        try:
            return rows_in(output_of(command, timeout, environment))
        except Failed as failure:
            self.failed(f"{what}: {failure.args[0]}")
            return rows_in(failure.args[1]) if len(failure.args) > 1 else []

    def run_side(self, side, pes, options, timeout):
        program = self.find(side, f"{side}_side")
        command = [*MPIRUN, "-np", str(pes), program, *options]
        for row in self.rows_of(f"{side}, {pes} PEs", command, timeout, self.environment(side)) if program else []:
            if row["op"] == "clock":
                self.clocks[side] = row["step_ns"]
            else:
                self.rows.append(row)
        self.save()

    def find(self, side, name):
        try:
            return self.program(side, name)
        except Failed as failure:
            self.failed(failure.args[0])

    def run_ibgda(self, timeout):
        """The same kernels over the NIC: latencies by the same program, rates by message_rate."""
        side, rate = self.find("peal", "peal_side"), self.find("peal", "message_rate")
        if not side or not rate:
            return
        with multi_process_service() as service:
            over_nic = {"PEAL_TRANSPORT": "ibgda", "PEAL_SOFTNIC_ENGINE": "gpu", "PEAL_HEAP_SIZE": "512M"}
            environment = self.environment("peal") | over_nic | service
            calls = [side, "--ops", IBGDA_OPS, "--iterations", "200", "--repeats", "5"]
            streams = [side, "--ops", "put,get", "--scope", "block", "--quick", "--iterations", "8", "--max-bytes",
                       str(1 << 20), "--span", str(64 << 20)]
            for command in (calls, streams):
                found = self.rows_of("ibgda", [*MPIRUN, "-np", "2", *command], timeout, environment)
                self.add_over_nic([row | {"op": "ibgda_" + row["op"]} for row in found if row["op"] != "clock"])
            for op, (scope, shapes) in IBGDA_RATES.items():
                for blocks, threads, queues, iterations in shapes[1:2] if self.arguments.quick else shapes:
                    shape = f"{blocks} x {threads}, {queues} queues"
                    command = [rate, "--json", "--op", "put", "--sizes", "8", "--scope", scope, "--blocks", blocks,
                               "--threads", threads, "--qps", queues, "--depth", 1024, "--iters", iterations]
                    found = self.rows_of(f"{op} {shape}", [*MPIRUN, "-np", "2", *map(str, command)], 60, environment)
                    kept = ("scope", "bytes", "pes", "iters", "mops", "errors", "transport", "nic")
                    self.add_over_nic([{name: row[name] for name in kept} | {
                        "side": "peal", "op": op, "variant": shape, "blocks": 0, "threads": 0} for row in found])
            if self.arguments.programs:
                self.run_programs(environment)
        self.save()

    def add_over_nic(self, rows):
        for row in rows:
            if (row["transport"], row["nic"]) != ("ibgda", "softnic-gpu"):
                self.failed(f"{row['op']}: asked for ibgda on softnic-gpu, ran {row['transport']} on {row['nic']}")
                return
            self.rows.append(row)

    def run_programs(self, environment):
        for name, *options in PROGRAMS:
            program = self.find("peal", name)
            command = [*MPIRUN, "-np", "2", program, "--json", *options]
            self.programs += self.rows_of(name, command, 30, environment) if program else []
        self.save()

    def failed(self, text):
        self.failures.append(text)
        print(f"FAILED {text}", file=sys.stderr, flush=True)

    # What is measured from outside.

    def measure(self, op, pes, repeats, seconds_of):
        """A row of seconds_of(side) for peal and NVSHMEM, which take turns. The first round warms the file cache."""
        seconds = {side: [] for side in self.sides(("peal", "nvshmem"))}
        for _ in range(repeats + 1):
            for side in list(seconds):
                if Stop.asked:
                    return
                try:
                    seconds[side].append(seconds_of(side))
                except (Failed, FileNotFoundError) as failure:
                    self.failed(f"{op} of {side}: {failure.args[0]}")
                    del seconds[side]
        for side, values in seconds.items():
            usec = [value * 1e6 for value in values[1:]]
            self.rows.append({"side": side, "variant": "", "op": op, "scope": "", "bytes": 0, "blocks": 0, "threads": 0,
                              "pes": pes, "iters": 1, "repeats": repeats, "usec": statistics.median(usec),
                              "usec_min": min(usec), "usec_max": max(usec), "errors": 0})
        self.save()

    def start_up(self, side):
        """From mpirun to the end of the first kernel of the last of two PEs."""
        program = self.program(side, f"start_up_{side}")
        begin = time.time_ns()
        found = rows_in(output_of([*MPIRUN, "-np", "2", program], 30, self.environment(side)))
        if len(found) != 2 or any(row["errors"] for row in found):
            raise Failed(f"{program}: of 2 PEs {len(found)} reported {found}")
        return (max(row["unix_ns"] for row in found) - begin) * 1e-9

    def compilation(self, side):
        """nvcc on the smallest kernel that includes the side's API, with the same flags."""
        source = ROOT / f"perf/compare/compile_{side}.cu"
        if not source.exists():
            raise Failed("a bundle has no sources; run perf/compare/compare.py --compile in peal's tree")
        begin = time.monotonic()
        output_of([*NVCC, "-I", str(ROOT), "-isystem", str(self.nvshmem_home() / "include"), source], 120)
        return time.monotonic() - begin

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
            for side in self.sides():
                self.say(f"{side}, barriers of {more} PEs")
                self.run_side(side, more, [*(["--quick"] if a.quick else []), "--ops", "barrier_all"], a.timeout)
        if a.programs:
            self.say("peal's own programs")
            self.run_programs(self.environment("peal"))
        if a.ibgda:
            self.say("peal over its NIC")
            self.run_ibgda(a.timeout)
        if not a.no_start_up:
            self.say("start-up")
            self.measure("start_up", 2, 3 if a.quick else 5, self.start_up)
        if a.compile:
            self.say("compilation")
            self.measure("compile", 0, 1 if a.quick else 3, self.compilation)

    def say(self, text):
        print(f"==> {text}", file=sys.stderr, flush=True)

    def save(self):
        if self.arguments.out:
            bars.write(self.arguments.out, self.about(), self.rows, self.programs)

    def about(self):
        return {
            "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"),
            "command": " ".join(["perf/compare/compare.py", *sys.argv[1:]]),
            "seconds": round(time.monotonic() - self.begin, 1),
            "machine": machine(),
            "nvshmem": nvshmem_version(),
            "clock_step_ns": self.clocks,
            "failures": self.failures,
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
    parser.add_argument("--out", type=pathlib.Path, help="write the best figures to this file, a case a line (bars.py)")
    parser.add_argument("--quick", action="store_true", help="fewer sizes and repetitions")
    parser.add_argument("--compile", action="store_true", help="time nvcc too")
    parser.add_argument("--ibgda", action="store_true", help="peal over the software NIC's GPU engine too")
    parser.add_argument("--programs", action="store_true", help="message_rate, latency and bandwidth too")
    parser.add_argument("--no-start-up", action="store_true")
    parser.add_argument("--np", type=int, help="PEs of the second run of the barriers; default: GPUs, at most 4")
    parser.add_argument("--ops", help="only these, with commas between them")
    parser.add_argument("--sides", default="peal,nvshmem,raw")
    parser.add_argument("--timeout", type=float, default=200, help="seconds for one side (200)")
    parser.add_argument("side_options", nargs="*", help="handed to every side, after --")
    return parser.parse_args()


def main():
    signal.signal(signal.SIGTERM, Stop.on_signal)
    comparison = Comparison(parse_arguments())
    comparison.run()
    comparison.save()
    table = bars.compare(comparison.rows)
    print(bars.render(table))
    errors = sum(row["errors"] for row in comparison.rows + comparison.programs)
    print(f"\n{bars.summary(table)}; {errors} errors, {len(comparison.failures)} failures")
    return 1 if errors or comparison.failures or Stop.asked or not comparison.rows else 0


if __name__ == "__main__":
    sys.exit(main())
