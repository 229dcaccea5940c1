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
        self.status = None
        self.heard = b""
        # nsenter stays beside the program, which ends with it.
        self.running = subprocess.Popen(
            ["nsenter", "-t", str(host.pid), "-n", "-u", "-m", "-p", "setpriv", "--pdeathsig", "KILL", "sh", "-c",
             f"exec {command}"], env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, preexec_fn=die_with_the_test)
        os.set_blocking(self.running.stdout.fileno(), False)

    def hear(self):
        """Takes what it wrote. False when it has ended."""
        heard = self.running.stdout.read(1 << 16)
        *lines, self.heard = (self.heard + (heard or b"")).split(b"\n")
        self.lines += [line.decode(errors="replace") for line in lines]
        if heard != b"":
            return True
        self.lines += [self.heard.decode(errors="replace")] if self.heard else []
        self.status = self.running.wait()
        return False

    def text(self):
        return "\n".join(self.lines)


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

    def cut(self, one, other):
        """Both ways, as if a cable were out: neither host is told."""
        self.before = self.sent()
        for there, here in ((one, other), (other, one)):
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

    def nics(self):
        return ",".join(self.address(n) for n in range(1, PES + 1))

    def remove(self):
        self.holder.kill()  # and with it all processes
        self.holder.wait()


class Namespaces:
    """Hosts 1 to `count`, with addresses of IPv4 or IPv6 (family: 4 or 6). programs: paths, found under their names."""

    transport = "ibgda"
    suite_options = ""  # a NIC by itself is what the suites take for granted

    def __init__(self, count, family, programs, scratch):
        self.name = f"namespaces with IPv{family}"
        self.family = family
        self.network = Network(family)
        self.waits = selectors.DefaultSelector()
        self.hosts = {number: Host(number, family) for number in range(1, count + 1)}
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
    BY_IPV6 = ("ring_on_1_2_2_3", "rma_on_1_2", "_lazily_on_", "_go_on", "hear_of_an_abort", "outlive_a_short_cut")

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
        left = [process for host in self.hosts.values() for process in host.processes if process.status is None]
        for process in left:
            self.kill(process)
        self.wait(lambda: all(process.status is not None for process in left), hosts.KILL_SECONDS, "kill")
        for host in self.hosts.values():
            host.processes.clear()

    def wait(self, happened, seconds, what):
        """Until happened() or, after `seconds`, hosts.Late."""
        until = time.monotonic() + seconds
        while not happened():
            for key, _ in self.waits.select(max(0, until - time.monotonic())):
                if not key.data.hear():
                    self.waits.unregister(key.fileobj)
            if time.monotonic() >= until and not happened():
                raise hosts.Late(f"{what}: not within {seconds} s")
