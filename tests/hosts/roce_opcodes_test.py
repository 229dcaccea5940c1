#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every packet that the software NIC sends, before two judges that know nothing of it: Wireshark's dissector (tshark)
has no complaint and sees in each what was meant, and the ICRC is right as roce_packets.py works it out.

    roce_opcodes_test.py LIBRARY APART PEAL_RUN PROGRAM      bazel test //tests/hosts:roce_opcodes_test

LIBRARY lies in the folder of the software NIC's libraries; APART runs a program as on a host of its own; PROGRAM is
peal's tests of atomics, for requests with masks, which verbs has no words for. Runs in a network namespace of its own.
Skipped, with the reason, where that or a package is missing.
"""
import json
import os
import pathlib
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
from xml.sax.saxutils import quoteattr

import roce_packets as roce

HERE = pathlib.Path(__file__).resolve().parent
PYTHON = "/usr/bin/python3"  # the one that Debian's pyverbs is built for
INSIDE = "--inside"  # the namespace
SECONDS = "240"
FOREIGN = "127.0.0.9"
NAMES = {0x00: "SEND first", 0x01: "SEND middle", 0x02: "SEND last", 0x03: "SEND last with immediate", 0x04: "SEND only",
         0x05: "SEND only with immediate", 0x06: "WRITE first", 0x07: "WRITE middle", 0x08: "WRITE last",
         0x09: "WRITE last with immediate", 0x0a: "WRITE only", 0x0b: "WRITE only with immediate", 0x0c: "READ request",
         0x0d: "READ response first", 0x0e: "READ response middle", 0x0f: "READ response last",
         0x10: "READ response only", 0x11: "acknowledge", 0x12: "atomic acknowledge", 0x13: "compare and swap",
         0x14: "fetch and add", 0x64: "UD SEND only", 0x65: "UD SEND only with immediate"}
MASKED = {0xc0, 0xc1, 0xc2, 0xc3, 0xc4}  # of manufacturers: only the software NIC knows them
RNR_NAK, NAK = 0x20, 0x60
NAKS = {NAK: "sequence error", NAK | 1: "invalid request", NAK | 2: "remote access error",
        NAK | 3: "remote operation error"}
# What tshark tells of a packet. It guesses that short SENDs are NFS' protocol over RDMA, and complains of that.
FIELDS = ("bth.opcode", "bth.se", "bth.padcnt", "bth.destqp", "bth.psn", "reth.dmalen", "aeth.syndrome", "invariant.crc")
GUESS = "rpcordma"


class Wrong(Exception):
    """A packet is otherwise than it should be."""


def require(holds, what):
    if not holds:
        raise Wrong(what)


class Ends:
    """Two programs on hosts of their own, on addresses of the loopback, each with a socket to the other."""

    def __init__(self, library):
        self.base = {**os.environ, "LD_LIBRARY_PATH": str(library.parent), "PEAL_SOFTNIC_PRESENT": "link=roce",
                     "PEAL_SOFTNIC_DIR": os.environ["TEST_TMPDIR"], "PEAL_SOFTNIC_TIMEOUT_SCALE": "8"}

    def start(self, role, address, end):
        env = {**self.base, "PEAL_SOFTNIC_UDP": address, "PEAL_SOFTNIC_FABRIC": f"roce_{role}_{os.getpid()}"}
        return subprocess.Popen(["timeout", SECONDS, PYTHON, HERE / "roce_traffic.py", role, str(end.fileno())], env=env,
                                pass_fds=[end.fileno()])

    def verbs(self):
        one, other = socket.socketpair()
        processes = [self.start("ask", "127.0.0.2", one), self.start("serve", "127.0.0.3", other)]
        one.close()
        other.close()
        statuses = [process.wait() for process in processes]
        require(statuses == [0, 0], f"roce_traffic.py ask and serve end with {statuses}")

    def foreign(self):
        """What only others ask for: READs of many packets; and packets out of their order."""
        one, other = socket.socketpair()
        process = self.start("foreign", "127.0.0.4", other)
        other.close()
        requester = roce.Requester(FOREIGN)
        with one.makefile("r") as heard:
            def case(compose):
                one.sendall((json.dumps({"at": FOREIGN}) + "\n").encode())
                to = json.loads(heard.readline())
                requester.send("127.0.0.4", compose(to))
                return lambda: one.sendall(b"{}\n")

            done = case(lambda to: roce.bth(roce.READ_REQUEST, to["qpn"], 100) + roce.reth(to["address"], to["rkey"], 3000))
            answers = [requester.answer() for _ in range(3)]
            done()
            require([opcode for opcode, _ in answers] == [0x0d, 0x0e, 0x0f], f"READ's answers are {answers}")
            done = case(lambda to: roce.bth(roce.READ_REQUEST, to["qpn"], 105) + roce.reth(to["address"], to["rkey"], 8))
            opcode, rest = requester.answer()
            done()
            require((opcode, rest[0]) == (roce.ACKNOWLEDGE, NAK), "a gap is answered by a NAK")
            one.sendall(b"{}\n")
        require(process.wait() == 0, "roce_traffic.py foreign")

    def masked(self, peal_run, apart, program):
        """A job of two PEs, each as on a host of its own."""
        tests = ":".join(f"AtomicsOn/{number}.EveryOperationByTheDefaultKindOfContext" for number in (0, 3))
        command = ["timeout", SECONDS, peal_run, "-n", "2", "--no-prefix", apart, program, f"--gtest_filter={tests}"]
        env = {**self.base, "PEAL_TRANSPORT": "ibgda"}
        env.pop("XML_OUTPUT_FILE", None)
        done = subprocess.run(command, env=env, capture_output=True, text=True)
        require(done.returncode == 0, f"{program} ends with {done.returncode}: {done.stdout}{done.stderr}")


class Packet:
    """As this test reads it: the layout of annex A17 and of chapter 9."""

    def __init__(self, ip):
        self.ip = ip
        self.number, = struct.unpack(">H", ip[4:6])
        udp = ip[28:]
        self.opcode = udp[0]
        self.solicited = udp[1] >> 7
        self.pad = udp[1] >> 4 & 3
        self.qpn, self.psn = struct.unpack(">II", udp[4:12])
        self.psn &= 0xffffff
        self.length = struct.unpack(">I", udp[24:28])[0] if self.opcode in (0x06, 0x0a, 0x0b, 0x0c) else None
        self.syndrome = udp[12] if self.opcode in (0x0d, 0x0f, 0x10, 0x11, 0x12) else None
        self.icrc = struct.unpack(">I", udp[-4:])[0]

    def name(self):
        return NAMES.get(self.opcode, f"opcode {self.opcode:#04x}")

    def fields(self):
        """As tshark writes them."""
        return [str(self.opcode), str(self.solicited), str(self.pad), f"{self.qpn:#08x}", str(self.psn),
                "" if self.length is None else str(self.length), "" if self.syndrome is None else str(self.syndrome),
                f"{self.icrc:#010x}"]


def dissect(capture):
    """tshark's FIELDS of each packet, behind them all that it complains of."""
    command = ["tshark", "-r", capture, "--disable-protocol", GUESS, "-T", "fields"]
    for field in [*(f"infiniband.{field}" for field in FIELDS), "_ws.expert.message", "_ws.malformed"]:
        command += ["-e", field]
    done = subprocess.run(command, capture_output=True, text=True)
    require(done.returncode == 0, f"tshark: {done.stderr}")
    return [line.split("\t") for line in done.stdout.splitlines()]


def judge(packets, capture):
    """Every packet, by both judges; answers what the capture holds."""
    told = dissect(capture)
    require(len(told) == len(packets), f"tshark sees {len(told)} packets of {len(packets)}")
    for number, (packet, words) in enumerate(zip(packets, told), 1):
        what = f"packet {number}, {packet.name()}"
        require(roce.is_sealed(packet.ip), f"{what}: its ICRC is {packet.icrc:#010x}, which is wrong")
        require(packet.opcode in NAMES or packet.opcode in MASKED, f"{what}: not one of those that docs/roce.md has")
        require(not any(words[len(FIELDS):]), f"{what}: tshark complains: {words[len(FIELDS):]}")
        if packet.opcode in NAMES:
            require(words[:len(FIELDS)] == packet.fields(), f"{what}: tshark sees {words}, not {packet.fields()}")
        else:
            require(words[:5] == packet.fields()[:5], f"{what}: tshark sees {words}, not {packet.fields()}")
        # Volume 1, chapter 9: requests that end in the receiver's completion, and no others.
        if packet.solicited:
            require(packet.opcode in (0x02, 0x03, 0x04, 0x05, 0x09, 0x0b, 0x64, 0x65), f"{what}: asks for an event")
    opcodes = {packet.opcode for packet in packets}
    missing = [NAMES.get(opcode, hex(opcode)) for opcode in sorted({*NAMES, *MASKED} - opcodes)]
    require(not missing, f"the capture has no {', '.join(missing)}")
    syndromes = {packet.syndrome for packet in packets}
    missing = [name for syndrome, name in NAKS.items() if syndrome not in syndromes]
    require(not missing, f"the capture has no NAK for {', '.join(missing)}")
    require(any(s is not None and s & 0xe0 == RNR_NAK for s in syndromes), "the capture has no RNR NAK")


def run(library, apart, peal_run, program):
    # Trains are cut before they are captured, by the kernel, which numbers their datagrams.
    subprocess.run(["ip", "link", "set", "lo", "up", "gso_max_segs", "1"], check=True)
    capture = pathlib.Path(os.environ["TEST_TMPDIR"]) / "roce.pcap"
    recorder = roce.Capture("lo", capture)
    ends = Ends(library)
    ends.verbs()
    ends.foreign()
    ends.masked(peal_run, apart, program)
    packets = [Packet(ip) for ip in recorder.stop()]
    judge(packets, capture)
    require(any(packet.number for packet in packets), "the capture has no train")
    try_the_judges(packets, capture)
    print(f"{len(packets)} packets of {len({packet.opcode for packet in packets})} opcodes: nothing wrong")


def try_the_judges(packets, capture):
    """Each of them finds a mistake that is made for it."""
    whole = capture.read_bytes()
    broken = bytearray(packets[0].ip)
    broken[-5] ^= 1
    require(not roce.is_sealed(bytes(broken)), "a changed byte changes no ICRC")
    at = whole.index(packets[0].ip)
    try:
        capture.write_bytes(whole[:at + 28] + b"\x1f" + whole[at + 29:])  # an opcode that nobody knows
        judge(packets, capture)
    except Wrong:
        return
    raise Wrong("tshark sees no difference in a packet of another opcode")


def why_not():
    """What is missing here, or nothing."""
    if not shutil.which("tshark"):
        return "no tshark: apt-get install tshark"
    if subprocess.run([PYTHON, "-c", "import pyverbs.qp"], capture_output=True).returncode:
        return "no pyverbs: apt-get install python3-pyverbs"
    if subprocess.run(["unshare", "-rn", "ip", "link", "set", "lo", "up"], capture_output=True).returncode:
        return "no network namespaces here"
    return ""


def report(mark):
    if "XML_OUTPUT_FILE" in os.environ:
        pathlib.Path(os.environ["XML_OUTPUT_FILE"]).write_text(
            f'<testsuites><testsuite name="roce_opcodes"><testcase classname="hosts" name="roce_opcodes">{mark}'
            '</testcase></testsuite></testsuites>')


def main(paths):
    if paths[0] == INSIDE:
        try:
            run(*(pathlib.Path(path).absolute() for path in paths[1:]))
        except (Wrong, OSError, RuntimeError, subprocess.SubprocessError) as error:
            print(error)
            report(f"<failure message={quoteattr(str(error))}/>")
            return 1
        report("")
        return 0
    if why := why_not():
        print(f"skipped: {why}")
        report(f"<skipped message={quoteattr(why)}/>")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        command = ["unshare", "-rn", sys.executable, __file__, INSIDE, *paths]
        return subprocess.run(command, env={"TEST_TMPDIR": folder, **os.environ}).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
