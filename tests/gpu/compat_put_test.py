#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A call by NVSHMEM's name is peal's own: the same instructions, but that the context is loaded from the module's
constants and not from a kernel's argument.

    compat_put_test.py FILE.ptx
"""
import collections
import re
import sys
import unittest

CALLS = ("put", "put_nbi", "put_block", "p", "put_signal", "atomic_add")
# Two branches to one place may be one, behind an or of both conditions.
BRANCHES = ("or.pred", "bra")
# How the two come to the context, moves that ptxas drops, and what is no instruction.
LOADS = re.compile(r"(ld\.param|ld\.const|cvta|mov)\b|prototype_")


def instructions(ptx, kernel):
    """Opcodes of a kernel with their number, without loads of the context."""
    found = re.search(rf"\.entry {kernel}\(.*?\n\{{\n(.*?)\n\}}\n", ptx, re.S)
    if not found:
        raise ValueError(f"no kernel {kernel}")
    counted = collections.Counter()
    for part in re.split(r"[;\n{}]|(?<=:)", re.sub(r"//[^\n]*", "", found.group(1))):
        statement = re.sub(r"^@!?%p\d+\s+", "", part.strip())
        if re.match(r"[a-z]", statement) and not LOADS.match(statement):
            opcode = statement.split()[0]
            counted["bra" if opcode in BRANCHES else opcode] += 1
    return counted


class Overhead(unittest.TestCase):
    ptx = ""

    def test_no_call_has_an_instruction_more(self):
        for call in CALLS:
            ours, native = (instructions(self.ptx, f"{side}_{call}") for side in ("compat", "native"))
            self.assertTrue(native, call)
            self.assertEqual(ours - native, collections.Counter(), f"{call}: more than peal's own")


if __name__ == "__main__":
    with open(sys.argv[1]) as file:
        Overhead.ptx = file.read()
    unittest.main(argv=sys.argv[:1])
