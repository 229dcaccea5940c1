#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Jobs of peal on hosts of their own, started by TCP. Three hosts serve all jobs, one at a time; the last one loses a
host. Of virtual hosts there is a fourth, which has a software NIC instead of rxe: matrix.py.

    hosts_test.py PROGRAM...                virtual hosts: the kernel's RDMA stack (rxe), rdma-core, peal's proxy
    hosts_test.py --namespaces PROGRAM...   network namespaces: the software NIC by UDP; some jobs by IPv6 alone
    hosts_test.py --only NAME ...           the cases with this in their names
    hosts_test.py --every ...               also those that take long and are much like others
    hosts_test.py --namespaces --rounds N --seed S ...   only N rounds of chaos.py, from that seed on

bazel test //tests/hosts:hosts_test and :namespaces_test give the programs. JOBS and LOSSES are the list of what must
pass. Skipped, with the reason, where Debian's packages or namespaces are missing.
"""
import ipaddress
import os
import pathlib
import re
import secrets
import shutil
import sys
import tempfile
import time
import traceback
from xml.sax.saxutils import quoteattr

import chaos
import hosts
import image
import kernel
import matrix
import namespaces
import rejoin
import weather

SETTINGS = {
    "PEAL_HEAP_SIZE": "16M",
    "PEAL_ACK_TIMEOUT": "17",  # 0.5 s: a dead peer is told from a slow one by seven of these
    "PEAL_TIMEOUT": "100s",  # a host without KVM is slow
    "PEAL_HOST_TIMEOUT": "60s",
}
JOB_SECONDS = 300
CUT_SECONDS = 1.5  # less than the NIC sends again for: 3.5 s
SILENCE_SECONDS = 12
SLOW_SECONDS = 30  # what two cores may take beside that, well below PEAL_TIMEOUT
LONG_JOB = f"message_rate --warmup 10 --iters 50 --json --sizes {','.join(['8'] * 100)}"  # a row for each

LAZY = {"PEAL_CONNECT": "lazy", "PEAL_INFO": "1"}

# Where the PEs are (a digit each: the host), the program, its arguments, what each PE prints or ("N tests") passes.
JOBS = [
    ("11", "hello", "", "hello from PE"),
    ("11", "ring", "", "ok"),
    ("11", "all_to_all", "", "ok"),
    ("11", "halo", "", "ok"),
    ("12", "hello", "", "hello from PE"),
    ("12", "ring", "", "ok"),
    ("12", "all_to_all", "", "ok"),
    ("12", "halo", "", "ok"),
    ("123", "hello", "", "hello from PE"),
    ("123", "ring", "", "ok"),
    ("123", "all_to_all", "", "ok"),
    ("123", "halo", "", "ok"),
    ("1223", "ring", "", "ok"),
    ("112233", "scale_pe", "3", '"pes": 6, '),
    ("12", "rma_mptest_program", "RmaBy/0.Puts*:RmaBy/8.Puts*:Rma.*", "8 tests"),
    ("12", "operations_mptest_program", "AtomicsOn/0.Every*:AtomicsOn/3.Every*:AtomicsOnReals*", "8 tests"),
    ("12", "operations_mptest_program", "PutSignalBy/0.*:PutSignalBy/8.AddFollowsTheData:WaitOn/*:WaitSets*", "10 tests"),
    ("12", "operations_mptest_program", "Sync.CountsOnFromKernelToKernel", "1 test"),
    # What the NIC refuses comes back in its words.
    ("12", "operations_mptest_program", "Windows.*:Misaligned.EightByteA*", "7 tests"),
]
# As JOBS, and what PE 0 says of its links. A link that is made late is made while kernels wait for it, in all directions
# at once (all_to_all), or by words and atomics.
LAZY_JOBS = [
    ("123123", "all_to_all", "", "ok", "links: 2 of 6 at the start"),
    ("12123", "operations_mptest_program", "AtomicsOn/3.Every*", "3 tests", "links: 2 of 5 at the start"),
]


class Wrong(Exception):
    """A job did otherwise than it should."""


def start(machines, where, command, settings=None):
    """A job over TCP: PE k on host where[k]. PE 0's host listens, at a port that no job before had."""
    start.port = getattr(start, "port", 20000) + 1
    root = ipaddress.ip_address(machines.address(int(where[0]))).packed.hex()
    job = {**SETTINGS, "PEAL_TRANSPORT": machines.transport, "PEAL_TCP_SIZE": len(where),
           "PEAL_TCP_ID": f"{secrets.token_hex(16)}{root}{start.port:04x}", **(settings or {})}
    return [start_process(machines, int(host), {**job, **machines.settings(int(host)), "PEAL_TCP_RANK": rank}, command)
            for rank, host in enumerate(where)]


def start_process(machines, host, words, program):
    """A PE with these variables, which it keeps for one that takes its place."""
    process = machines.start(host, f"env {' '.join(f'{name}={value}' for name, value in words.items())} {program}")
    process.words, process.program = words, program
    return process


def finish(machines, pes):
    machines.wait(lambda: all(pe.status is not None for pe in pes), JOB_SECONDS, "the job")


def require(pes, holds, what):
    if not holds:
        told = "\n".join(f"PE {rank}, status {pe.status}: {pe.text()}" for rank, pe in enumerate(pes))
        raise Wrong(f"expected: {what}\n{told}")


def require_end(pes):
    """PE 0 ends and names PE 1. The NIC's error and the bootstrap's race: the one says PE, the other says rank."""
    named = any(name in pes[0].text() for name in ("PE 1", "rank 1 of"))
    require(pes[:1], pes[0].status == 1 and named, "PE 0 ends and names PE 1")


def run(machines, where, program, arguments, wanted, settings=None):
    suite = program.endswith("_mptest_program")
    command = f"{program} {machines.suite_options} '--gtest_filter={arguments}'" if suite else f"{program} {arguments}"
    pes = start(machines, where, command, settings)
    finish(machines, pes)
    for pe in pes:
        require(pes, pe.status == 0, "status 0")
        if suite:
            require(pes, f"[  PASSED  ] {wanted}." in pe.lines, f"{wanted} passed")
    if not suite:
        require(pes, wanted in pes[0].text(), wanted)
    return pes


def run_lazily(machines, *job, links):
    pes = run(machines, *job, LAZY)
    require(pes, links in pes[0].text(), links)


def under_way(machines, pes):
    """Until PE 0 has told its first row."""
    machines.wait(lambda: "{" in pes[0].text() or pes[0].status is not None, JOB_SECONDS, "the first row")
    require(pes, pes[0].status is None, "a job that is under way")


def require_going_on(pes, why):
    """PE 0 and 2 mask PE 1, of which they have heard why it is lost, and go on."""
    for rank in (0, 2):
        require(pes, pes[rank].status == 0 and "went on without PE 1" in pes[rank].text(), f"PE {rank} goes on")
    require(pes, any(why in pes[rank].text() for rank in (0, 2)), why)


def lose_a_pe_and_go_on(machines, where, why):
    """PEs of its own host hear of it from the operating system, and tell the others; or its host's network tells."""
    pes = start(machines, where, "survive")
    finish(machines, pes)
    require_going_on(pes, why)
    # How a process has ended can be read until its parent has fetched it: who comes later says nothing of it.
    told = re.findall(r"PE 1 (?:on \w+ )?\(process \d+\) has ended before the job did(.*); all waits end",
                      pes[0].text() + pes[2].text())
    require(pes, all(how == "" or how.startswith((": it was ended by signal 9", ": it has ended, as its host says"))
                     for how in told), "signal 9, or nothing of how")


def hear_of_an_abort(machines):
    """A PE of another host calls the job off: waits of kernels end at once, and its reason is told."""
    pes = start(machines, "1231", "survive abort")
    finish(machines, pes)
    reason = re.compile(r"PE 1 (on \w+ )?aborted: PE 1 has had enough")
    require(pes, all(pe.status == 0 and reason.search(pe.text()) for pe in pes), "all hear")


def lose_a_pe_of_another_host(machines):
    """Every wait ends, with an error, and PE 1 is named."""
    pes = start(machines, "12", LONG_JOB)
    under_way(machines, pes)
    machines.kill(pes[1])
    finish(machines, pes)
    require_end(pes)


def in_rounds(machines, where, settings=None):
    """A job that exchanges words for ever, once all its PEs do."""
    pes = start(machines, where, "survive rounds", settings)
    machines.wait(lambda: all("in the rounds" in pe.text() or pe.status is not None for pe in pes), JOB_SECONDS, "rounds")
    require(pes, all(pe.status is None for pe in pes), "a job that is under way")
    return pes


def outlive_a_short_cut(machines):
    """The NICs send again until they are heard, and every word comes."""
    pes = in_rounds(machines, "112")
    machines.network.cut(1, 2)
    time.sleep(CUT_SECONDS)
    machines.network.heal()
    require(pes, machines.network.dropped > 0, "frames that were dropped")
    machines.start(1, "touch /run/last_round")
    finish(machines, pes)
    require(pes, all(pe.status == 0 and "all rounds were right" in pe.text() for pe in pes), "a job that ends right")
    finish(machines, [machines.start(1, "rm /run/last_round")])  # before the next job looks for it


def lose_the_network_between(machines, other):
    """Host 1 and the other one: each side takes the other's PEs for lost, names them, and goes on without them."""
    pes = in_rounds(machines, f"11{other}", {"PEAL_HOST_TIMEOUT": f"{SILENCE_SECONDS}s"})
    machines.network.cut(1, other)
    machines.wait(lambda: all("lost: " in pe.text() or pe.status is not None for pe in pes),
                  SILENCE_SECONDS + SLOW_SECONDS, "all hear of the cut")
    finish(machines, pes)
    machines.network.heal()
    for pe, lost in zip(pes, ("PE 2", "PE 2", "PE [01]")):
        require(pes, pe.status == 0 and "went on without them" in pe.text(), "both sides go on")
        require(pes, re.search(f"{lost}.*nor has any PE of its host", pe.text()), f"{lost} and its host are named")


def lose_a_host(machines):
    """Nobody says good-bye: its silence is noticed, and the others go on without it."""
    pes = start(machines, "132", "survive stay", {"PEAL_HOST_TIMEOUT": f"{SILENCE_SECONDS}s"})
    machines.wait(lambda: all("in the second barrier" in pe.text() for pe in pes), JOB_SECONDS, "the second barrier")
    machines.power_off(3)
    finish(machines, [pes[0], pes[2]])
    require_going_on(pes, "nor has any PE of its host")
    run(machines, "12", "ring", "", "ok")  # the others are well


LOSSES = {
    "lose_a_pe_and_go_on": lambda machines: lose_a_pe_and_go_on(machines, "111", "has ended"),
    "lose_a_pe_of_another_host_and_go_on": lambda machines: lose_a_pe_and_go_on(machines, "1223", "has ended"),
    "lose_the_only_pe_of_a_host_and_go_on": lambda machines: lose_a_pe_and_go_on(machines, "123", "as its host says"),
    "hear_of_an_abort": hear_of_an_abort,
    "lose_a_pe_of_another_host": lose_a_pe_of_another_host,
    "outlive_a_short_cut": outlive_a_short_cut,
    "lose_the_network_between_two_hosts": lambda machines: lose_the_network_between(machines, 2),
    "lose_a_host": lose_a_host,  # the last one, for good
}


def cases(inside, every):
    if inside:
        yield from chaos.cases(start, require, chaos.SHORT)
    for where, program, arguments, wanted in JOBS:
        name = f"{hosts.job_word(program, arguments)}_on_{'_'.join(where)}"
        yield name, lambda machines, job=(where, program, arguments, wanted): run(machines, *job)
    for *job, links in LAZY_JOBS:
        name = f"{hosts.job_word(*job[1:3])}_lazily_on_{'_'.join(job[0])}"
        yield name, lambda machines, job=job, links=links: run_lazily(machines, *job, links=links)
    if not inside:
        yield from matrix.cases(require, run, start, finish)
        yield from weather.cases(require, run, every)
    if every and not inside:
        yield ("lose_the_network_between_rxe_and_softnic",
               lambda machines: lose_the_network_between(machines, matrix.SOFT))
    again = rejoin.Cases(start, start_process, finish, require)
    yield from again.everywhere()
    if inside:
        yield from again.in_namespaces()
    yield from LOSSES.items()


def why_not():
    """What is missing here for virtual hosts, or nothing."""
    for program, package in (("qemu-system-x86_64", "qemu-system-x86"), ("busybox", "busybox-static"), ("cpio", "cpio")):
        if not shutil.which(program):
            return f"no {program}: apt-get install {package}"
    if not image.rdma():
        return "no rdma: apt-get install iproute2"
    if not kernel.FOLDER.exists():
        return "no kernel for virtual hosts: tests/hosts/kernel.py fetches it"
    return ""


def report(results):
    """results: (name, what is wrong or nothing, seconds), or (name, None, why it was skipped)."""
    rows = []
    for name, wrong, rest in results:
        # Consoles have control characters, which XML has not.
        wrong = wrong and "".join(c for c in wrong if c >= " " or c in "\n\t")
        mark = f"<skipped message={quoteattr(rest)}/>" if wrong is None else \
            f"<failure message={quoteattr(wrong)}/>" if wrong else ""
        rows.append(f'<testcase classname="hosts" name="{name}">{mark}</testcase>')
    text = f"<testsuites><testsuite name=\"hosts\">{''.join(rows)}</testsuite></testsuites>"
    if "XML_OUTPUT_FILE" in os.environ:
        pathlib.Path(os.environ["XML_OUTPUT_FILE"]).write_text(text)


def attempt(case, machines):
    """What is wrong, "" where nothing is; and how long it took. None, and why, where the case is skipped."""
    begin = time.monotonic()
    wrong = ""
    try:
        case(machines)
    except hosts.Skipped as why:
        return None, str(why)
    except (Wrong, hosts.Late) as error:
        wrong = str(error)
    except Exception:  # pylint: disable=broad-except
        wrong = traceback.format_exc()  # of the case: the others still run, and are told of
    try:
        machines.kill_all()
    except hosts.Late as error:
        wrong += str(error)
    return wrong, time.monotonic() - begin


def told(name, wrong, rest):
    return f"skipped  {name}: {rest}" if wrong is None else f"{rest:5.1f} s  {name} {wrong}"


def virtual_hosts(programs, scratch):
    library, = (program for program in programs if program.endswith("libpeal_softnic.so"))
    initrd = image.make(kernel.FOLDER, programs + matrix.debian_programs(), scratch, matrix.softnic_of(library))
    yield lambda: hosts.Hosts(4, kernel.FOLDER, initrd, scratch, matrix.SOFTWARE_NICS)


def namespaces_of(programs, scratch):
    yield lambda: namespaces.Namespaces(3, 4, programs, scratch)
    yield lambda: namespaces.Namespaces(3, 6, programs, scratch)


def argument_of(arguments, name, default):
    return int(arguments[arguments.index(name) + 1]) if name in arguments else default


def main(arguments):
    only = arguments[arguments.index("--only") + 1:] if "--only" in arguments else [""]
    seed = argument_of(arguments, "--seed", 1)
    seeds = range(seed, seed + argument_of(arguments, "--rounds", 0))
    programs = [argument for argument in arguments if os.path.exists(argument)]
    inside = "--namespaces" in arguments
    if why := namespaces.why_not() if inside else why_not():
        print(f"skipped: {why}")
        report([("all", None, why)])
        return 0
    if inside:
        namespaces.enter()
    results = []
    with tempfile.TemporaryDirectory() as folder:
        for boot in (namespaces_of if inside else virtual_hosts)(programs, pathlib.Path(folder)):
            begin = time.monotonic()
            with boot() as machines:
                print(f"{machines.name} are up after {time.monotonic() - begin:.1f} s", flush=True)
                listed = chaos.cases(start, require, seeds) if seeds else cases(inside, "--every" in arguments)
                for name, case in machines.chosen(listed):
                    if any(word in name for word in only):
                        results.append((name, *attempt(case, machines)))
                        print(told(*results[-1]), flush=True)
    for line in chaos.summary():
        print(line)
    report(results)
    return any(wrong for _, wrong, _ in results)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
