# SPDX-License-Identifier: Apache-2.0
"""Hosts that are network namespaces of this machine, with the calls of hosts.Hosts: the software NIC takes packets from
one to another, by UDP.

    host n (h<n>) --- veth r<n> --- router: the namespace of the test, which routes

Host n has network 10.0.n.0/24 or fd00:0:0:n::/64 and nothing of the other family, so that a network of IPv6 only is
one. A cut is a rule of the router's: packets between two hosts go to a device where nobody listens, and are counted.
A host has a name, network, processes and shared memory (/dev/shm, /run) of its own; it shares other files.

enter() comes first: the test becomes root of namespaces of its own, and nothing of it stays.
"""
import ctypes
import ipaddress
import json
import os
import pathlib
import selectors
import shutil
import signal
import subprocess
import sys
import time

import hosts

INSIDE = "PEAL_TEST_NAMESPACES"
PES = 16  # addresses of a host: one for each NIC
CUT_TABLE = "77"
LIBC = ctypes.CDLL(None)

HOST = ["unshare", "--net", "--uts", "--pid", "--fork", "--kill-child", "--mount", "--mount-proc"]
FORWARDING = ("ipv4/ip_forward", "ipv6/conf/all/forwarding")  # in /proc/sys/net


def die_with_the_test():
    LIBC.prctl(hosts.PR_SET_PDEATHSIG, signal.SIGKILL)


def why_not():
    """What is missing here, or nothing."""
    for program, package in (("ip", "iproute2"), ("unshare", "util-linux"), ("nsenter", "util-linux")):
        if not shutil.which(program):
            return f"no {program}: apt-get install {package}"
    # All that a network and its hosts want; containers often allow a part of it.
    wanted = ["ip link add r1 type veth peer name h1", f"{' '.join(HOST)} mount -t tmpfs shm /dev/shm",
              *(f"echo 1 >/proc/sys/net/{path}" for path in FORWARDING), "ip -6 address add fd00::1/64 dev r1"]
    tried = subprocess.run([*unshare(), "sh", "-c", " && ".join(wanted)], capture_output=True, text=True, check=False)
    return f"no network namespaces here: {tried.stderr.strip()}" if tried.returncode else ""


def unshare():
    """Root needs no namespace of users."""
    user = [] if os.geteuid() == 0 else ["--map-root-user"]
    return ["unshare", *user, "--net", "--mount", "--propagation", "private"]


def enter():
    """Goes on in namespaces of its own, from the beginning of the program."""
    if INSIDE not in os.environ:
        os.execvpe("unshare", [*unshare(), sys.executable, *sys.argv], {**os.environ, INSIDE: "1"})
    del os.environ[INSIDE]


def ip(*words, of=None):
    """ip(8), in the namespace of process `of`."""
    inside = ["nsenter", "-t", str(of), "-n"] if of else []
    return subprocess.run([*inside, "ip", *words], check=True, capture_output=True, text=True).stdout


class Process:
    """A program on a host: the lines it wrote so far, its exit status once it has ended."""

    def __init__(self, host, command, environment):
        self.host = host
        self.command = command
        self.lines = []
        self.heard_at = []  # time.monotonic() of each line
        self.ended_at = None
        self.status = None
        self.heard = b""
        # nsenter stays beside the program, which ends with it.
        self.running = subprocess.Popen(
            [*host.enter, "setpriv", "--pdeathsig", "KILL", "sh", "-c", f"exec {command}"], env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, preexec_fn=die_with_the_test)
        os.set_blocking(self.running.stdout.fileno(), False)

    def hear(self):
        """Takes what it wrote. False when it has ended."""
        heard = self.running.stdout.read(1 << 16)
        *lines, self.heard = (self.heard + (heard or b"")).split(b"\n")
        lines += [self.heard] if heard == b"" and self.heard else []
        self.lines += [line.decode(errors="replace") for line in lines]
        self.heard_at += [time.monotonic()] * len(lines)
        if heard != b"":
            return True
        self.status = self.running.wait()
        self.ended_at = time.monotonic()
        return False

    def text(self):
        return "\n".join(self.lines)

    def pids(self):
        """The program's, if it runs, and that of nsenter, which stops with it."""
        nsenter = self.running.pid
        if self.running.returncode is not None:  # its number may be another process's
            return []
        return [*map(int, pathlib.Path(f"/proc/{nsenter}/task/{nsenter}/children").read_text().split()), nsenter]

    def signal(self, number):
        """To the program, if it runs."""
        pids = self.pids()
        for pid in pids if number == signal.SIGCONT else pids[:-1]:
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass

    def states(self):
        return [state_of(pid) for pid in self.pids()]


def state_of(pid):
    """As ps(1) shows it; nothing of a process that has ended."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][:1]
    except OSError:
        return ""


class Network:
    """What the router does with packets between hosts."""

    def __init__(self, family):
        self.option = f"-{family}"
        self.cuts = []
        ip("link", "add", "nobody", "type", "veth", "peer", "name", "nothing")
        # A device that asks for no neighbour: what is sent by it is gone.
        ip("link", "set", "nobody", "arp", "off", "up")
        ip("link", "set", "nothing", "arp", "off", "up")
        ip(self.option, "route", "add", "default", "dev", "nobody", "table", CUT_TABLE)
        for path in FORWARDING:
            pathlib.Path("/proc/sys/net", path).write_text("1")

    def remove(self):
        self.heal()
        ip("link", "delete", "nobody")

    def cut(self, one, other, back=True):
        """Both ways, or from one to the other, as if a cable were out: neither host is told."""
        self.before = self.sent()
        for there, here in ((one, other), (other, one)) if back else ((one, other),):
            rule = ("from", str(network_of(self.option, there)), "to", str(network_of(self.option, here)), "lookup",
                    CUT_TABLE)
            ip(self.option, "rule", "add", *rule)
            self.cuts.append(rule)

    def heal(self):
        while self.cuts:
            ip(self.option, "rule", "delete", *self.cuts.pop())

    def sent(self):
        return json.loads(ip("-s", "-j", "link", "show", "nobody"))[0]["stats64"]["tx"]["packets"]

    @property
    def dropped(self):
        """Packets between hosts that are cut off from each other, since the last cut()."""
        return self.sent() - self.before


def network_of(option, number):
    return ipaddress.ip_network(f"10.0.{number}.0/24" if option == "-4" else f"fd00:0:0:{number}::/64")


class Host:
    BOOT = """hostname host{}
        mount -t tmpfs shm /dev/shm; mount -t tmpfs run /run
        echo; exec sleep infinity"""

    def __init__(self, number, family):
        self.number = number
        self.option = f"-{family}"
        self.processes = []
        self.holder = subprocess.Popen(
            [*HOST, "sh", "-c", self.BOOT.format(number)],
            stdout=subprocess.PIPE, preexec_fn=die_with_the_test)
        self.holder.stdout.readline()
        self.pid = int(pathlib.Path(f"/proc/{self.holder.pid}/task/{self.holder.pid}/children").read_text())
        ip("link", "add", f"r{number}", "type", "veth", "peer", "name", f"h{number}")
        ip("link", "set", f"h{number}", "netns", str(self.pid))
        self.configure()

    @property
    def enter(self):
        return ["nsenter", "-t", str(self.pid), "-n", "-u", "-m", "-p"]

    def address(self, number):
        """The addresses 1 to PES are those of the host, the next one the router's."""
        return str(network_of(self.option, self.number)[number])

    def configure(self):
        bits = str(network_of(self.option, self.number).prefixlen)
        check = ["nodad"] if self.option == "-6" else []
        router, here = f"r{self.number}", f"h{self.number}"
        pid = self.pid
        ip(self.option, "address", "add", f"{self.address(PES + 1)}/{bits}", "dev", router, *check)
        ip("link", "set", router, "up")
        ip("link", "set", "lo", "up", of=pid)
        if self.option == "-6":
            ip("-4", "address", "flush", "dev", "lo", of=pid)
        for n in range(1, PES + 1):
            ip(self.option, "address", "add", f"{self.address(n)}/{bits}", "dev", here, *check, of=pid)
        ip("link", "set", here, "up", of=pid)
        ip(self.option, "route", "add", "default", "via", self.address(PES + 1), of=pid)

    @property
    def root(self):
        """Its files, as this process sees them."""
        return pathlib.Path(f"/proc/{self.pid}/root")

    def unplug(self):
        """Its card sees no carrier, and the router tells others that there is no way."""
        ip("link", "set", f"r{self.number}", "down")

    def plug(self):
        router = f"r{self.number}"
        ip("link", "set", router, "up")
        if self.option == "-6":  # Linux takes addresses of IPv6 away from what is down
            bits = network_of(self.option, self.number).prefixlen
            ip(self.option, "address", "replace", f"{self.address(PES + 1)}/{bits}", "dev", router, "nodad")

    def left_over(self):
        """What jobs have left behind, though nobody runs any more: processes, sockets, files."""
        root = self.root
        found = [f"process {pid.name}" for pid in (root / "proc").iterdir()
                 if pid.name.isdigit() and pid.name != "1" and state_of(f"{self.pid}/root/proc/{pid.name}") not in ("", "Z")]
        sockets = pathlib.Path(f"/proc/{self.pid}/net/unix").read_text().splitlines()[1:]
        found += [f"socket {line.split()[-1]}" for line in sockets]
        return found + [str(path) for folder in ("dev/shm", "run") for path in (root / folder).rglob("*")]

    def nics(self):
        return ",".join(self.address(n) for n in range(1, PES + 1))

    def remove(self):
        self.holder.kill()  # and with it all processes
        self.holder.wait()


class Outside:
    """Where the test runs, from where all hosts can be entered."""

    number = 0
    enter = ()

    def __init__(self):
        self.processes = []


class Namespaces:
    """Hosts 1 to `count`, with addresses of IPv4 or IPv6 (family: 4 or 6). programs: paths, found under their names."""

    transport = "ibgda"
    suite_options = ""  # a NIC by itself is what the suites take for granted

    def __init__(self, count, family, programs, scratch):
        self.name = f"namespaces with IPv{family}"
        self.family = family
        self.network = Network(family)
        self.waits = selectors.DefaultSelector()
        self.outside = Outside()
        self.hosts = {}
        for number in range(1, count + 1):
            self.power_on(number)
        self.folder = scratch / f"bin{family}"
        self.folder.mkdir()
        for program in programs:
            (self.folder / pathlib.Path(program).name).symlink_to(pathlib.Path(program).resolve())
        self.environment = {**os.environ, "PATH": f"{self.folder}:{os.environ['PATH']}"}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for number in list(self.hosts):
            self.power_off(number)
        self.network.remove()

    # What has to do with addresses: a start, transfers and links at first use, and all that messages tell.
    BY_IPV6 = ("ring_on_1_2_2_3", "rma_on_1_2", "_lazily_on_", "_go_on", "hear_of_an_abort", "outlive_a_short_cut",
               "chaos_")

    def chosen(self, cases):
        """Of (name, case); by IPv6 they have names of their own."""
        if self.family == 4:
            return cases
        return [(f"{name}_by_ipv6", case) for name, case in cases if any(word in name for word in self.BY_IPV6)]

    def address(self, number):
        return self.hosts[number].address(1)

    def settings(self, number):
        """Of the PEs of that host: its NICs are on a fabric of their own."""
        return {"PEAL_SOFTNIC_FABRIC": f"host{number}", "PEAL_SOFTNIC_UDP": self.hosts[number].nics(),
                "PEAL_SOFTNIC_TIMEOUT_SCALE": "8"}

    def power_on(self, number):
        self.hosts[number] = Host(number, self.family)

    def power_off(self, number):
        """As if its plug were pulled: it is off the network first, so that no closed port tells."""
        for other in self.hosts:
            if other != number:
                self.network.cut(number, other)
        host = self.hosts.pop(number)
        ip("link", "delete", f"r{number}")
        host.remove()
        for process in host.processes:
            if process.status is None:
                self.waits.unregister(process.running.stdout)
                process.running.wait()
                process.status = -signal.SIGKILL

    def start(self, number, command):
        process = Process(self.hosts[number], command, self.environment)
        self.hosts[number].processes.append(process)
        self.waits.register(process.running.stdout, selectors.EVENT_READ, process)
        return process

    def start_launcher(self, launcher, options, command):
        """Starts a launcher that takes a remote shell, which enters host1, host2, ... from here, as ssh would."""
        shell = self.folder / "enter"
        cases = "".join(f"host{number}) exec {' '.join(host.enter)} sh -c \"$2\" ;;\n" for number, host in self.hosts.items())
        shell.write_text(f"#!/bin/sh\ncase $1 in\n{cases}esac\nexit 255\n")
        shell.chmod(0o755)
        nics = ",".join(host.nics() for host in self.hosts.values())
        settings = f"PEAL_TRANSPORT={self.transport} PEAL_SOFTNIC_TIMEOUT_SCALE=8 PEAL_SOFTNIC_UDP={nics}"
        process = Process(self.outside, f"env {settings} {launcher} --rsh {shell} {options} {command}", self.environment)
        self.outside.processes.append(process)
        self.waits.register(process.running.stdout, selectors.EVENT_READ, process)
        return process

    def serve(self, number, command):
        """Starts what lives as long as the host: kill_all() leaves it."""
        process = self.start(number, command)
        self.hosts[number].processes.remove(process)
        return process

    def kill(self, process):
        process.running.kill()
        return process

    def kill_all(self):
        """What a job that ended late or in part left running."""
        places = [self.outside, *self.hosts.values()]
        left = [process for place in places for process in place.processes if process.status is None]
        for process in left:
            self.kill(process)
        self.wait(lambda: all(process.status is not None for process in left), hosts.KILL_SECONDS, "kill")
        for place in places:
            place.processes.clear()

    def hear(self, happened, seconds):
        """Hears the processes until happened() or `seconds` have passed; answers which."""
        until = time.monotonic() + seconds
        while not happened():
            if time.monotonic() >= until:
                return False
            for key, _ in self.waits.select(max(0, until - time.monotonic())):
                if not key.data.hear():
                    self.waits.unregister(key.fileobj)
        return True

    def wait(self, happened, seconds, what):
        """Until happened() or, after `seconds`, hosts.Late."""
        if not self.hear(happened, seconds):
            raise hosts.Late(f"{what}: not within {seconds} s")
