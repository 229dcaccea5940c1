#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How fast the software NIC's UDP is beside iperf3's, between two network namespaces of this machine (docs/roce.md).

    bazel build //perf:bandwidth //perf:message_rate //softnic/abi:libpeal_softnic.so
    tests/hosts/roce_rates.py                       path MTU 4096, Ethernet frames of 9000 bytes
    tests/hosts/roce_rates.py --path-mtu 1024       frames of 1500
    tests/hosts/roce_rates.py --lost 1              and of all datagrams that many in a hundred are lost (needs nft)
    tests/hosts/roce_rates.py --apart               each datagram crosses the network by itself, as on a cable

A round runs iperf3 with datagrams of the same size, puts of 1 MiB and puts of 8 bytes, one after the other, so that what
else the machine does befalls all of them. iperf3 sends as fast as it can, and repeats nothing: on a busy machine much of
it does not arrive. A line for each round, in MiB a second but for the puts of 8 bytes, then the medians. Every byte of the
puts is verified; the status is 1 where one is wrong.
"""
import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

import hosts_test
import namespaces

ROOT = pathlib.Path(__file__).resolve().parents[2] / "bazel-bin"
PROGRAMS = ["perf/bandwidth", "perf/message_rate", "softnic/abi/libpeal_softnic.so"]
AROUND_PAYLOAD = 12 + 4  # BTH and ICRC of a packet in the middle of a message
IPERF_SECONDS = 3
IPERF_LIMIT = 60
MIB = 1 << 20
COLUMNS = ("iperf3_sends", "iperf3_arrives", "puts_1m", "over_sent", "over_arrived", "puts_8_a_second", "load")


def options():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--path-mtu", type=int, default=4096, choices=[1024, 2048, 4096])
    parser.add_argument("--family", type=int, default=4, choices=[4, 6])
    parser.add_argument("--lost", type=int, default=0, help="datagrams of a hundred that the router drops")
    parser.add_argument("--apart", action="store_true", help="no card takes several datagrams in one piece")
    parser.add_argument("--megabytes", type=int, default=256, help="of a round's puts of 1 MiB")
    parser.add_argument("--puts", type=int, default=256_000, help="of 8 bytes in a round")
    parser.add_argument("--programs", type=pathlib.Path, default=ROOT, help="the folder of what was built")
    return parser.parse_args()


class Hosts(namespaces.Namespaces):
    """Two of them, on a network as the options have it."""

    def __init__(self, asked, scratch):
        super().__init__(2, asked.family, [asked.programs / program for program in PROGRAMS], scratch)
        self.mtu = asked.path_mtu
        for number, host in self.hosts.items():
            self.set_up(f"r{number}", asked)
            self.set_up(f"h{number}", asked, of=host.pid)
        if asked.lost:
            # Of what is in one piece a router would drop the whole.
            rule = f"type filter hook forward priority 0; numgen random mod 100 < {asked.lost} drop;"
            subprocess.run(["nft", "-f", "-"], input=f"table inet weather {{\n chain forward {{\n {rule}\n }}\n}}\n", text=True,
                           check=True)

    @staticmethod
    def set_up(device, asked, of=None):
        namespaces.ip("link", "set", device, "mtu", "9000" if asked.path_mtu > 1024 else "1500", of=of)
        if asked.apart or asked.lost:
            namespaces.ip("link", "set", device, "gso_max_segs", "1", of=of)

    def settings(self, number):
        return {**super().settings(number), "PEAL_SOFTNIC_PRESENT": f"'link=roce mtu={self.mtu}'"}


def iperf3(machines, asked):
    """MiB a second that are sent, and that arrive."""
    server = machines.start(2, "iperf3 -s -1 --forceflush")
    machines.wait(lambda: "listening" in server.text() or server.status is not None, IPERF_LIMIT, "iperf3 -s")
    client = machines.start(1, f"iperf3 -c {machines.address(2)} -u -b 0 -t {IPERF_SECONDS} -J "
                               f"-l {asked.path_mtu + AROUND_PAYLOAD}")
    hosts_test.finish(machines, [server, client])
    hosts_test.require([client], client.status == 0, "iperf3 ends well")
    told = json.loads(client.text())["end"]["sum"]
    sent = told["bytes"] / told["seconds"] / MIB
    return sent, sent * (1 - told["lost_percent"] / 100)


def puts(machines, command):
    """The row of the benchmark, and whether all of it is right."""
    pes = hosts_test.start(machines, "12", command, {"PEAL_HEAP_SIZE": "64M"})
    hosts_test.finish(machines, pes)
    hosts_test.require(pes, all(pe.status == 0 for pe in pes), "status 0")
    row, = (json.loads(line) for line in pes[0].lines if line.startswith("{"))
    hosts_test.require(pes, row["verified"], "every byte is right")
    return row["operations"] / row["seconds"]


def one_round(machines, asked):
    sent, arrived = iperf3(machines, asked)
    of_mib = puts(machines, f"bandwidth --op put --sizes 1M --iters {asked.megabytes // 2} --json")
    of_words = puts(machines, f"message_rate --op put --sizes 8 --iters {asked.puts // 64} --json")
    row = (sent, arrived, of_mib, of_mib / sent, of_mib / max(arrived, 1), of_words, os.getloadavg()[0])
    return dict(zip(COLUMNS, row))


def main():
    asked = options()
    if why := namespaces.why_not():
        print(f"skipped: {why}")
        return 0
    for program in ["iperf3"] + ["nft"] * bool(asked.lost):
        if not shutil.which(program):
            print(f"skipped: no {program}")
            return 0
    namespaces.enter()
    with tempfile.TemporaryDirectory() as folder, Hosts(asked, pathlib.Path(folder)) as machines:
        rows = []
        try:
            for _ in range(asked.rounds):
                rows.append(one_round(machines, asked))
                print("  ".join(f"{name} {value:.2f}" for name, value in rows[-1].items()), flush=True)
        except hosts_test.Wrong as error:
            print(error)
            return 1
        print("median: " + "  ".join(f"{name} {statistics.median(row[name] for row in rows):.2f}" for name in COLUMNS))
    return 0


if __name__ == "__main__":
    sys.exit(main())
