# SPDX-License-Identifier: Apache-2.0
"""Virtual hosts: qemu without KVM, one CPU each, Debian's kernel, rdma_rxe on a card of the switch in network.py.

    with Hosts(2, kernel, initrd, scratch) as hosts:
        first = hosts.start(1, "echo hello")
        hosts.wait(lambda: first.status is not None, 60, "hello")

Host n (from 1) is 10.0.0.n. Those in `software_nics`, {number: settings}, have no rxe, and the settings in the
environment of all their commands. Commands are shell lines; init has the other end. All hosts end with this process.
"""
import ctypes
import re
import selectors
import signal
import socket
import subprocess
import time

import network

BOOT_SECONDS = 300
# A CPU that calls its string instructions fast (ERMS, FSRM) has the kernel and glibc use them, and qemu executes them byte
# by byte: hosts take a third more of the CPU.
CPU = "max,erms=off,fsrm=off"
KILL_SECONDS = 30
PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None)


def job_word(program, arguments):
    """What a job is called: its program; of one of tests/mp, whose arguments are a filter, the first suite of that."""
    return re.split("[/.*]", arguments)[0] if program.endswith("_mptest_program") else program


class Late(Exception):
    """Something did not happen in time."""


class Skipped(Exception):
    """What a case needs is not installed here."""


class Process:
    """A command on a host: the lines it wrote so far, its exit status once it has ended."""

    def __init__(self, host, number, command):
        self.host = host
        self.number = number
        self.command = command
        self.lines = []
        self.status = None

    def text(self):
        return "\n".join(self.lines)


class Host:
    def __init__(self, number, port, kernel, initrd, scratch, rxe):
        self.number = number
        self.address = f"10.0.0.{number}"
        self.console = scratch / f"console{number}"
        self.control, theirs = socket.socketpair()
        self.heard = b""
        self.processes = {0: Process(self, 0, "boot")}
        self.qemu = subprocess.Popen(
            ["qemu-system-x86_64", "-machine", "q35,accel=tcg", "-cpu", CPU, "-m", "512", "-nodefaults", "-no-reboot",
             "-display", "none", "-serial", f"file:{self.console}",
             "-kernel", kernel / "vmlinux", "-initrd", initrd,
             "-append", f"console=ttyS0 loglevel=4 panic=-1 rdinit=/init mitigations=off no_timer_check tsc=unstable host={number} rxe={rxe}",
             "-netdev", f"socket,id=net,fd={port.theirs.fileno()}",
             "-device", f"virtio-net-pci,netdev=net,mac={port.mac()}",
             "-chardev", f"socket,id=control,fd={theirs.fileno()}",
             "-device", "virtio-serial-pci", "-device", "virtserialport,chardev=control,nr=1"],
            stdin=subprocess.DEVNULL, pass_fds=(port.theirs.fileno(), theirs.fileno()),
            preexec_fn=lambda: LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL))
        theirs.close()

    def last_words(self):
        return self.console.read_text(errors="replace")[-2000:] if self.console.exists() else "(no console)"

    def hear(self):
        """Takes what init said. False when the host is off."""
        try:
            heard = self.control.recv(1 << 16)
        except ConnectionResetError:
            heard = b""
        *lines, self.heard = (self.heard + heard).split(b"\n")
        for line in lines:
            number, what, *text = line.decode(errors="replace").split(" ", 2)
            process = self.processes[int(number)]
            if what == "end":
                process.status = int(text[0])
            else:
                process.lines += text or [""]
        return heard != b""


class Hosts:
    """Hosts 1 to `count`, booted."""

    name = "virtual hosts"
    transport = "proxy"
    suite_options = "--transport=proxy"

    def __init__(self, count, kernel, initrd, scratch, software_nics=None):
        self.software_nics = software_nics or {}
        self.network = network.Network(count)
        self.waits = selectors.DefaultSelector()
        self.hosts = {}
        self.started = 0
        for number, port in self.network.ports.items():
            rxe = "no" if number in self.software_nics else "yes"
            self.hosts[number] = Host(number, port, kernel, initrd, scratch, rxe)
            self.waits.register(self.hosts[number].control, selectors.EVENT_READ, self.hosts[number])
        self.network.start()

    def __enter__(self):
        boots = [host.processes[0] for host in self.hosts.values()]
        try:
            self.wait(lambda: all(boot.status is not None for boot in boots), BOOT_SECONDS, "boot")
        except Late:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for number in list(self.hosts):
            self.power_off(number)
        self.network.stop()

    def chosen(self, cases):
        return cases

    def address(self, number):
        return self.hosts[number].address

    def settings(self, _):
        """Of the PEs of a host, beside those of the job."""
        return {}

    def power_off(self, number):
        """As if its plug were pulled."""
        host = self.hosts.pop(number)
        self.waits.unregister(host.control)
        host.control.close()
        host.qemu.kill()
        host.qemu.wait()

    def start(self, number, command):
        """Starts a program (one, for it shall be killed alone) on host `number`."""
        host = self.hosts.get(number)
        if host is None:
            raise Late(f"{command}: host {number} is off")
        self.started += 1
        process = host.processes[self.started] = Process(host, self.started, command)
        settings = "".join(f"export {name}={value}; " for name, value in self.software_nics.get(number, {}).items())
        line = f"{self.started} echo $$ >/run/{self.started}.pid; {settings}exec {command}\n"
        host.control.sendall(line.encode())
        return process

    def kill(self, process):
        return self.start(process.host.number, f"kill -9 $(cat /run/{process.number}.pid)")

    def kill_all(self):
        """What a job that ended late or in part left running."""
        for host in list(self.hosts.values()):
            left = [process for process in host.processes.values() if process.status is None]
            for process in left:
                self.kill(process)
            self.wait(lambda left=left: all(process.status is not None for process in left), KILL_SECONDS, "kill")

    def wait(self, happened, seconds, what):
        """Until happened() or, after `seconds`, Late."""
        until = time.monotonic() + seconds
        while not happened():
            ready = self.waits.select(max(0, until - time.monotonic()))
            for key, _ in ready:
                if not key.data.hear():
                    self.power_off(key.data.number)
                    raise Late(f"{what}: host {key.data.number} went off by itself: {key.data.last_words()}")
            if time.monotonic() >= until and not happened():
                words = "\n".join(host.last_words() for host in self.hosts.values())
                raise Late(f"{what}: not within {seconds} s; consoles:\n{words}")
