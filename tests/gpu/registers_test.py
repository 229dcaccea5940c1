#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""No operation takes a kernel over the registers that a block of 1,024 threads leaves each: 65,536 / 1,024. A kernel
with more does not start with such blocks ("too many resources requested for launch").

    registers_test.py FILE.ptx PTXAS

Fails at ece44de, where a put of a block took 88 in a file of its own and 186 in this one, and a quiet 126.
"""
import re
import subprocess
import sys
import unittest

LIMIT = 65536 // 1024
# Those that still take more, with what they take: none may grow.
OVER = {
    "put_signal_thread": 70,
    "put_signal_warp": 70,
    "put_signal_block": 72,
    "nvshmem_put_signal_block": 70,
    "nvshmem_getmem_warp": 72,
    "quiet_warp": 68,
    "fence_warp": 68,
    "barrier_all_warp": 70,
    "team_barrier_block": 76,
    "iput_block": 79,
    "iget_block": 88,
}


def registers(ptx, ptxas):
    """{kernel: registers} as ptxas gives them out."""
    with open(ptx, encoding="utf-8") as file:
        target = re.search(r"^\.target (sm_\w+)", file.read(), re.M).group(1)
    done = subprocess.run([ptxas, "-v", f"-arch={target}", ptx, "-o", "/dev/null"], check=False, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode != 0:
        raise ValueError(f"{ptxas}: {done.stdout}")
    used = {}
    kernel = None
    for line in done.stdout.splitlines():
        entry = re.search(r"Compiling entry function '(\w+)'", line)
        kernel = entry.group(1) if entry else kernel
        number = re.search(r"Used (\d+) registers", line)
        if number:
            used[kernel] = int(number.group(1))
    return used


class Registers(unittest.TestCase):
    used = {}

    def test_no_operation_takes_more_than_the_table_allows(self):
        self.assertIn("put_block", self.used)
        over = {name: number for name, number in self.used.items() if number > OVER.get(name, LIMIT)}
        self.assertEqual(over, {}, f"registers of operations, of which there may be {LIMIT}")

    def test_the_table_names_only_what_takes_more(self):
        within = {name: self.used.get(name) for name in OVER if self.used.get(name, 0) <= LIMIT}
        self.assertEqual(within, {}, "take them out of OVER")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    Registers.used = registers(*sys.argv[1:])
    for name, number in sorted(Registers.used.items(), key=lambda each: -each[1]):
        print(f"{number:4} {name}")
    unittest.main(argv=sys.argv[:1])
