#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""No operation takes a kernel over the registers that a block of 1,024 threads leaves each: 65,536 / 1,024. A kernel
with more does not start with such blocks ("too many resources requested for launch"). In relocatable code, as programs
of NVSHMEM's are compiled, no more than leave room for a second such block on the multiprocessor.

    registers_test.py FILE.ptx PTXAS
    registers_test.py FILE.cubin NVLINK sm_90      of relocatable code for that architecture

Fails at ece44de, where a put of a block took 88 in a file of its own and 186 in registers.cu, and a quiet 126; of
relocatable code at 15654d9, where the kernels of relocatable.cu had 69 to 166.
"""
import re
import subprocess
import sys
import unittest

FILE = 65536
LIMIT = FILE // 1024
RELOCATABLE_LIMIT = FILE // 2048
# Those that still take more, with what they take: none may grow. The hardware gives registers out by eights.
OVER = {
    "put_signal_warp": 68,
    "put_signal_block": 70,
    "nvshmem_put_signal_block": 70,
    "nvshmem_getmem_warp": 72,
    "quiet_warp": 67,
    "fence_warp": 67,
    "barrier_all_warp": 70,
    "team_barrier_block": 80,
    "iput_block": 75,
    "iget_block": 88,
}


def output_of(*command):
    done = subprocess.run(command, check=False, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode != 0:
        raise ValueError(f"{command[0]}: {done.stdout}")
    return done.stdout


def registers(path, tool, target=None):
    """{kernel: registers} as ptxas gives them out, or nvlink finds them with those of all that a kernel calls."""
    if target is None:
        with open(path, encoding="utf-8") as file:
            target = re.search(r"^\.target (sm_\w+)", file.read(), re.M).group(1)
    said = output_of(tool, "-v", f"-arch={target}", path, "-o", "/dev/null")
    used = {}
    kernel = None
    for line in said.splitlines():
        entry = re.search(r"(?:Compiling entry function|Function properties for) '(\w+)'", line)
        kernel = entry.group(1) if entry else kernel
        number = re.search(r"[Uu]sed (\d+) registers", line)
        if number and "hold_registers" not in kernel:  # is never launched (device/base/call.h)
            used[kernel] = int(number.group(1))
    return used


class Registers(unittest.TestCase):
    used = {}
    limit = LIMIT
    allowed = OVER

    def test_no_operation_takes_more_than_the_table_allows(self):
        self.assertIn("put_signal_block", self.used)
        over = {name: number for name, number in self.used.items() if number > self.allowed.get(name, self.limit)}
        self.assertEqual(over, {}, f"registers of operations, of which there may be {self.limit}")

    def test_the_table_names_only_what_takes_more(self):
        within = {name: self.used.get(name) for name in self.allowed if self.used.get(name, 0) <= self.limit}
        self.assertEqual(within, {}, "take them out of OVER")


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    Registers.used = registers(*sys.argv[1:])
    if sys.argv[1].endswith(".cubin"):
        Registers.limit, Registers.allowed = RELOCATABLE_LIMIT, {}
    for name, number in sorted(Registers.used.items(), key=lambda each: -each[1]):
        print(f"{number:4} {name}")
    unittest.main(argv=sys.argv[:1])
