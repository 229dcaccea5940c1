#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Jobs on two hosts (namespaces.py), started as docs/cluster.md says, by the launchers themselves.

    launchers_test.py --slurm PROGRAM...    in a Slurm cluster: srun by PMI and PMIx, mpirun, torchrun
    launchers_test.py PROGRAM...            peal-run and mpirun by OpenSSH, torchrun
    launchers_test.py --only NAME ...       the cases with this in their names

bazel test //tests/hosts:slurm_test and :launchers_test give the programs. A launcher that is not there is skipped, with
the reason. All PEs have the same settings: what tells them apart comes from their launcher alone.
"""
import dataclasses
import importlib.util
import os
import pathlib
import re
import shlex
import shutil
import sys
import tempfile
import typing

import hosts
import namespaces
import slurm
import ssh
from hosts_test import LONG_JOB, SETTINGS, attempt, finish, report, require

JOB_SECONDS = 120
# What four PEs run, the words that are said, and how often.
HELLO = "hello", tuple(f"PE {pe} of 4: hello from PE {(pe + 3) % 4}, ok" for pe in range(4)), 1
ALL_TO_ALL = "all_to_all", ("ok",), 1
RING = "ring", ("ok",), 1
COLLECTIVES = "collective_mptest_program --gtest_filter=CollectivesBy/0.AllPes:CollectivesBy/2.AllPes", ("[  PASSED  ] 2 tests.",), 4
# Beside programs of peal: a PE that leaves its process's number for others to find, and its words, of which srun loses
# some when it ends a step; one that fails; and a remote shell.
SCRIPTS = {
    "numbered": 'echo $$ >/run/pe.$pe; exec "$@" 2>/run/said.$pe',
    "last_fails": '"$@" || exit 1; [ $pe != 3 ] || exit 7',
    "through_srun": 'exec srun --unbuffered --overlap -N 1 -n 1 -w "$1" sh -c "$2"',
}
SCRIPT = """#!/bin/sh
pe=${{PEAL_TCP_RANK:-${{OMPI_COMM_WORLD_RANK:-${{RANK:-$SLURM_PROCID}}}}}}
{}
"""
PEAL_RUN_LOST = r"PE 1 of 2 \(host host2, pid \d+\)"
TORCHRUN_PORT = 29500
RENDEZVOUS = "--rdzv_backend c10d --rdzv_endpoint host1:29400 --rdzv_id 17"


def prepare(machines, scratch):
    """Hosts that know each other by name, with settings of which a NIC takes an address of its host."""
    names = "".join(f"{machines.address(number)} host{number}\n" for number in machines.hosts)
    (scratch / "hosts").write_text(f"127.0.0.1 localhost\n{names}")
    for number in machines.hosts:
        finish(machines, [machines.start(number, f"mount --bind {scratch}/hosts /etc/hosts")])
    for name, text in SCRIPTS.items():
        (machines.folder / name).write_text(SCRIPT.format(text))
        (machines.folder / name).chmod(0o755)
    settings = {**SETTINGS, "PEAL_TRANSPORT": machines.transport, "PEAL_SOFTNIC_TIMEOUT_SCALE": "8",
                "PEAL_SOFTNIC_UDP": ",".join(host.nics() for host in machines.hosts.values())}
    machines.environment |= {**settings, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    for name in ("XML_OUTPUT_FILE", "TEST_PREMATURE_EXIT_FILE"):  # one for all: they are the test's own
        machines.environment.pop(name, None)
    return settings


def end_of(machines, processes, command):
    machines.wait(lambda: all(one.status is not None for one in processes), JOB_SECONDS, command)
    return "\n".join(one.text() for one in processes)


def run(machines, launcher, job, code=0):
    """A job of four PEs, which ends with `code`."""
    command, words, times = job
    processes = launcher.start(4, command)
    text = end_of(machines, processes, command)
    require(processes, all(one.status == code for one in processes), f"status {code}")
    for word in words:
        require(processes, text.count(word) == times, f"{times} times '{word}'")


def fail(machines, launcher):
    """The exit code of a PE is that of the job."""
    run(machines, launcher, ("last_fails hello", HELLO[1], 1), launcher.code(7))


def refuse_to_be_alone(machines, launcher):
    """Of PEs that have no way to meet none takes itself for a whole job."""
    run(machines, launcher, ("hello", ("SLURM_STEP_NUM_TASKS=4 tells of several processes",), 4), 1)


def lose_a_pe(machines, launcher):
    """Of two PEs the one of host 2 is killed: the job ends, and both are named."""
    processes = launcher.start(2, f"numbered {LONG_JOB}")
    machines.wait(lambda: any("{" in one.text() or one.status is not None for one in processes), JOB_SECONDS, "a row")
    require(processes, all(one.status is None for one in processes), "a job that is under way")
    killed = machines.start(2, "sh -c 'kill -9 $(cat /run/pe.1) && rm /run/pe.1'")
    finish(machines, [killed])
    require([killed], killed.status == 0, "a process that was killed")
    text = end_of(machines, processes, "the job that lost a PE")
    require(processes, all(one.status == launcher.code(137) for one in processes), f"status {launcher.code(137)}")
    require(processes, re.search(launcher.lost, text), launcher.lost)
    if launcher.leaves_others:
        said = machines.start(1, "cat /run/said.0")
        finish(machines, [said])
        # The job's messages and the bootstrap's race.
        words = "PE 1 on host2 ended before the job did|rank 1 of 2 on host2 died"
        require([said], re.search(words, said.text()), words)


@dataclasses.dataclass
class Launcher:
    name: str
    start: typing.Callable  # (PEs, command): its processes
    jobs: tuple = (HELLO, ALL_TO_ALL)
    others: tuple = (fail, lose_a_pe)  # cases, by (machines, launcher)
    code: typing.Callable = lambda code: code  # what it ends with where that is the worst code of a PE
    lost: str = ""  # its words for PE 1 that was killed
    leaves_others: bool = True  # to hear of that
    why_not: str = ""


class Torchrun:
    """PyTorch's launcher. That of Debian 12 (1.13) does not know Python 3.11, where a flag without bits is not listed with
    its class: it starts processes only when it is told a stream to keep."""

    KEEPS = "", "--redirects 1 --tee 1"

    def __init__(self, machines):
        self.program = shutil.which("torchrun") or f"{sys.executable} -m torch.distributed.run"
        self.why_not = ""
        if not shutil.which("torchrun") and not importlib.util.find_spec("torch"):
            self.why_not = "no torchrun: apt-get install python3-torch"
            return
        for keeps in self.KEEPS:
            self.keeps = keeps
            tried = machines.start(1, self("--nproc_per_node 1") + " true")
            text = end_of(machines, [tried], "torchrun of `true`")
            if tried.status == 0:
                return
        self.why_not = f"torchrun does not start `true`: {text[-200:]}"

    def __call__(self, words):
        return f"{self.program} {words} {self.keeps} --no_python"


def by_torchrun(machines):
    """One on each host. They are told where all meet, or where they agree on that first (c10d)."""
    torchrun = Torchrun(machines)

    def launcher(name, words):
        return Launcher(name, lambda pes, command: [
            machines.start(node, torchrun(f"--nnodes 2 --nproc_per_node {pes // 2} {words.format(node - 1)}") + f" {command}")
            # Where all PEs of a host end with 0, its torchrun waits five minutes for others that have failed.
            for node in machines.hosts], jobs=(HELLO,), others=(lose_a_pe,), code=lambda _: 1,
            lost=r"host +: host2\n +rank +: 1 ", why_not=torchrun.why_not)

    yield launcher("torchrun", f"--node_rank {{}} --master_addr host1 --master_port {TORCHRUN_PORT}")
    yield launcher("torchrun_c10d", RENDEZVOUS)


def by_ssh(machines, scratch, settings):
    why_not = ssh.why_not()
    rsh = "" if why_not else ssh.serve(machines, scratch)
    variables = " ".join(f"-x {name}" for name in settings)
    for name, words, lost in (
            ("peal_run", f"peal-run --rsh '{rsh}' --hosts", PEAL_RUN_LOST),
            ("mpirun", f"mpirun --mca plm_rsh_agent '{rsh}' --bind-to none {variables} --host", "rank 1 with PID .* on node host2")):
        yield Launcher(name, lambda pes, command, words=words: [
            machines.start(1, f"{words} host1:{pes // 2},host2:{pes // 2} {command}")], lost=lost, leaves_others=False, why_not=why_not)


def by_slurm(machines, scratch):
    """Also what goes on inside: mpirun and peal-run start their daemons by srun, and srun a torchrun on each host."""
    cluster = slurm.Cluster(machines, scratch)

    def launcher(name, command_of, **rest):
        return Launcher(name, lambda pes, command: [machines.start(1, command_of(pes, command))], **rest)

    def srun(way, **rest):
        return launcher(f"srun_{way}", lambda pes, command: cluster.srun(f"--mpi={way} -N 2 -n {pes} {command}"),
                        lost="host2: task 1: Killed", why_not=slurm.why_no(way), **rest)

    def inner(way):
        """srun from the shell of an allocation, which a srun with PMI started: its variables are handed on."""
        return launcher(f"srun_{way}_in_srun_pmi2", lambda pes, command:
                        f"salloc -N 2 -n {pes} srun --mpi=pmi2 -N 1 -n 1 sh -c "
                        f"{shlex.quote(f'srun --overlap --mpi={way} -n {pes} {command}')}", jobs=(HELLO,), others=(),
                        why_not=slurm.why_no("pmi2", way))

    yield from (srun(way, jobs=(HELLO, RING, ALL_TO_ALL, COLLECTIVES)) for way in slurm.WAYS)
    yield from (inner(way) for way in slurm.WAYS)
    for without in (srun("none"), inner("none")):
        yield dataclasses.replace(without, jobs=(), others=(refuse_to_be_alone,))
    yield launcher("peal_run_through_srun", lambda pes, command:
                   f"env SLURM_JOB_ID={cluster.job} peal-run --rsh through_srun "
                   f"--hosts host1:{pes // 2},host2:{pes // 2} {command}",
                   jobs=(HELLO,), lost=PEAL_RUN_LOST, leaves_others=False)
    yield launcher("mpirun_in_salloc", lambda pes, command: f"salloc -N 2 -n {pes} mpirun --bind-to none {command}",
                   jobs=(HELLO,), others=())
    torchrun = Torchrun(machines)
    yield launcher("torchrun_in_srun", lambda pes, command: cluster.srun(
        f"-N 2 -n 2 {torchrun(f'--nnodes 2 --nproc_per_node {pes // 2} {RENDEZVOUS}')} {command}"),
        jobs=(HELLO,), others=(), why_not=torchrun.why_not)


def cases(launchers):
    """Name, call, and why it is skipped or nothing."""
    for one in launchers:
        for job in one.jobs:
            name = job[0].partition(" ")[0].removesuffix("_mptest_program")
            yield f"{name}_by_{one.name}", lambda machines, one=one, job=job: run(machines, one, job), one.why_not
        for case in one.others:
            yield f"{case.__name__}_by_{one.name}", lambda machines, one=one, case=case: case(machines, one), one.why_not


def main(arguments):
    only = arguments[arguments.index("--only") + 1:] if "--only" in arguments else [""]
    in_slurm = "--slurm" in arguments
    if why := namespaces.why_not() or (slurm.why_not() if in_slurm else ""):
        print(f"skipped: {why}")
        report([("all", None, why)])
        return 0
    namespaces.enter()
    results = []
    with tempfile.TemporaryDirectory() as folder:
        scratch = pathlib.Path(folder)
        programs = [argument for argument in arguments if os.path.exists(argument)]
        with namespaces.Namespaces(2, 4, programs, scratch) as machines:
            try:
                settings = prepare(machines, scratch)
                launchers = [*by_slurm(machines, scratch)] if in_slurm else \
                    [*by_ssh(machines, scratch, settings), *by_torchrun(machines)]
            except hosts.Late as error:
                print(error)
                report([("launchers", str(error), 0)])
                return 1
            for name, case, why in cases(launchers):
                if not any(word in name for word in only):
                    continue
                results.append((name, None, why) if why else (name, *attempt(case, machines)))
                print(f"{'skipped' if why else f'{results[-1][2]:5.1f} s'}  {name} {why or results[-1][1]}", flush=True)
    report(results)
    return any(wrong for _, wrong, _ in results)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
