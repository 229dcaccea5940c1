# SPDX-License-Identifier: Apache-2.0
"""Linux' rxe on one host and the software NIC on another, over RoCE v2: Debian's programs, each end once the server, and
jobs of peal. docs/roce.md has the table.

perftest takes the larger of two limits of outstanding READs, rxe's, which the software NIC refuses: hence -o.
"""
import pathlib
import shutil

import hosts

RXE, SOFT = 1, 4  # hosts
SOFTWARE_NICS = {SOFT: {"LD_LIBRARY_PATH": "/softnic", "PEAL_SOFTNIC_UDP": f"10.0.0.{SOFT}",
                        "PEAL_SOFTNIC_TIMEOUT_SCALE": "8"}}
DEVICES = {RXE: ("rxe0", 1), SOFT: ("mlx5_0", 3)}  # and the number of the GID that is the host's address
PROGRAM_SECONDS = 100

# Program, options, what both ends print at last.
PROGRAMS = [
    ("ibv_rc_pingpong", "-m 1024 -n 50", "50 iters in"),
    ("ibv_rc_pingpong", "-m 1024 -n 20 -s 100000 -c", "20 iters in"),
    ("ibv_ud_pingpong", "-n 50 -s 1000", "50 iters in"),
    ("ib_write_bw", "-m 1024 -F -n 20", " 65536      20 "),
    ("ib_read_bw", "-m 1024 -F -n 20 -o 16", " 65536      20 "),
    ("ib_read_bw", "-m 1024 -F -n 5 -o 16 -s 1000000", " 1000000    5 "),
    ("ib_send_bw", "-m 1024 -F -n 20", " 65536      20 "),
    ("ib_atomic_bw", "-m 1024 -F -n 50 -o 16", " 8          50 "),
    ("ib_atomic_bw", "-m 1024 -F -n 50 -o 16 -A CMP_AND_SWAP", " 8          50 "),
]
PACKAGES = {"ib_": "perftest", "ibv": "ibverbs-utils"}
# As in hosts_test.py, on a host of each kind.
JOBS = [
    ("hello", "", "hello from PE"),
    ("ring", "", "ok"),
    ("all_to_all", "", "ok"),
    ("halo", "", "ok"),
    ("rma_mptest_program", "RmaBy/0.Puts*:RmaBy/8.Puts*:Rma.*", "8 tests"),
    ("operations_mptest_program", "AtomicsOn/0.Every*:AtomicsOn/3.Every*:AtomicsOnReals*", "8 tests"),
    # What a NIC refuses comes back from the other kind.
    ("operations_mptest_program", "Windows.*:Misaligned.EightByteA*", "7 tests"),
]


def debian_programs():
    """Their paths; those that are not installed have none."""
    return [path for path in map(shutil.which, dict.fromkeys(name for name, *_ in PROGRAMS)) if path]


def command(host, program, options, server):
    device, gid = DEVICES[host]
    return f"timeout {PROGRAM_SECONDS} {program} -d {device} {'-g' if program.startswith('ibv') else '-x'} {gid} {options} {server}"


def pair(machines, require, server, client, job):
    """A program at both ends; the client asks until the server listens."""
    program, options, wanted = job
    if shutil.which(program) is None:
        raise hosts.Skipped(f"no {program}: apt-get install {PACKAGES[program[:3]]}")
    ends = [machines.start(server, command(server, program, options, "")), None]
    while True:
        ends[1] = machines.start(client, command(client, program, options, f"10.0.0.{server}"))
        machines.wait(lambda: ends[1].status is not None, 2 * PROGRAM_SECONDS, "the client")
        if ends[0].status is not None or "ouldn't connect" not in ends[1].text():
            break
    machines.wait(lambda: ends[0].status is not None, 2 * PROGRAM_SECONDS, "the server")
    require(ends, all(end.status == 0 for end in ends), "status 0 of server and client")
    require(ends, wanted in ends[1].text(), wanted)


def cases(require, run, start, finish):
    """Names and calls. The arguments are those of hosts_test.py."""
    for job in PROGRAMS:
        for server, client in ((RXE, SOFT), (SOFT, RXE)):
            name = "_".join([job[0], *job[1].replace("-m 1024 ", "").replace("-F ", "").replace("-", "").split()])
            ends = "softnic_to_rxe" if server == RXE else "rxe_to_softnic"
            yield f"{ends}_{name}", lambda machines, ends=(server, client), job=job: pair(machines, require, *ends, job)
    for program, arguments, wanted in JOBS:
        for where in (f"{RXE}{SOFT}", f"{SOFT}{RXE}"):
            name = f"softnic_and_rxe_{hosts.job_word(program, arguments)}_on_{'_'.join(where)}"
            yield name, lambda machines, job=(where, program, arguments, wanted): run(machines, *job)
    yield "softnic_by_kernels_and_rxe", lambda machines: refused_by_kernels(machines, require, start, finish)


def refused_by_kernels(machines, require, start, finish):
    """Kernels of the software NIC's PE would post atomics that rxe does not know."""
    pes = start(machines, f"{RXE}{SOFT}", "ring", {"PEAL_TRANSPORT": "auto"})
    finish(machines, pes)
    for pe in pes:
        require(pes, pe.status == 1 and "PEAL_TRANSPORT=proxy, whose atomics all NICs know" in pe.text(), "the remedy")


def softnic_of(library):
    """Folder in a host, and the software NIC's libraries beside `library`."""
    folder = pathlib.Path(library).parent
    return {"softnic": [folder / name for name in ("libibverbs.so.1", "libmlx5.so.1", "libpeal_softnic.so")]}
