#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The commands of simt/gdb in a gdb: what the commands show of tests/gdb/held.cc, with line tables alone, with full debug information
of the program, and stripped; and that waits go on after a debugger held the process for longer than their deadline.

    gdb_test.py HELD HELD_WITH_DEBUG_INFORMATION HELD_STRIPPED

Skipped, with the reason, where there is no gdb or nobody may trace a process.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

HELD, HELD_FULL, HELD_STRIPPED = sys.argv[1:4]
SOURCE = pathlib.Path(__file__).with_name("held.cc").read_text().splitlines()
STOP = ["set breakpoint pending on", "break everything_waits", "run"]


def line_of(lane):
    """The line of held.cc that is marked as this lane's."""
    return next(i + 1 for i, line in enumerate(SOURCE) if line.endswith(f"// line of lane {lane}"))


def gdb(program, *commands):
    """What gdb says to each of the commands."""
    environment = {**os.environ, "PEAL_TRANSPORT": "ibgda", "PEAL_TIMEOUT": "60s"}
    arguments = ["gdb", "-batch", "-nx", "-iex", "set auto-load safe-path /", "-iex", "set width 0"]
    for i, command in enumerate(commands):
        arguments += ["-ex", f"echo \\n=={i}==\\n", "-ex", command]
    run = subprocess.run([*arguments, program], env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT, text=True, timeout=240)
    return re.split(r"\n==\d+==\n", run.stdout)[1:]


def skip_reason():
    if shutil.which("gdb") is None:
        return "no package gdb"
    said = gdb("/bin/true", "python print('has python')", "run")
    if "has python" not in said[0]:
        return "this gdb is built without Python"
    if "exited normally" not in said[1]:
        return f"gdb may not trace a process here: {said[1].strip()}"
    return None


class Commands(unittest.TestCase):
    def expect(self, said, *patterns):
        for pattern in patterns:
            self.assertRegex(said, re.compile(pattern, re.M))

    def lanes(self, program):
        lanes, first, second, third = gdb(
            program, *STOP, "peal lanes", "peal lane 0 bt", "peal lane 1 bt", "peal lane 2 bt")[len(STOP):]
        at = [rf"held\.cc:{line_of(0)}$", rf"held\.cc:{line_of(1)}$"]
        self.expect(lanes, r"^grid 1: kernel wait_for_seven, 5 blocks of 2 threads, 2 of them resident, 3 not begun$",
                    rf"^  0 +\(0,0,0\)  \(0,0,0\)  in __syncthreads +meet at {at[0]}",
                    rf"^  1 +\(0,0,0\)  \(1,0,0\)  in peal::wait_until +wait_for_seven at {at[1]}",
                    r"^  2 +\(1,0,0\)  \(0,0,0\)  runs on thread \d+ +everything_waits at held\.cc:",
                    r"^  3 +\(1,0,0\)  \(1,0,0\)  has ended$")
        self.expect(first, r"^#0 .*peal::simt::Fiber", rf"^#\d+ .*meet .*{at[0]}", r"^#\d+ .*wait_for_seven ")
        self.expect(second, r"^#0 .*peal::simt::Fiber", rf"^#\d+ .*wait_for_seven .*{at[1]}")
        self.expect(third, r"^#0 .*everything_waits ", r"^#1 .*wait_for_seven ")
        for said in (first, second, third):
            self.assertNotIn("peal::launch", said)  # the backtrace ends with the kernel

    def test_lanes_by_line_tables(self):
        self.lanes(HELD)

    def test_lanes_with_debug_information(self):
        self.lanes(HELD_FULL)
        waits, value = gdb(HELD_FULL, *STOP, "peal waits", "peal lane 1 print *word")[len(STOP):]
        self.expect(waits, r"lane 1: peal::wait_until\(word=0x\w+ -> 0, compare=peal::Compare::kGe, value=7\) of ")
        self.expect(value, r"= 0$")

    def test_a_stripped_program_has_the_commands(self):
        lanes, = gdb(HELD_STRIPPED, *STOP, "peal lanes")[len(STOP):]
        self.expect(lanes, r"^grid 1: kernel wait_for_seven, ", r"^  0 .* in .*__syncthreads.* wait_for_seven$",
                    r"^  1 .* wait_for_seven$", r"^  2 .* runs on thread", r"^  3 .* has ended$")

    def test_a_lane_stays_selected(self):
        selected, frame, off, again = gdb(
            HELD, *STOP, "peal lane 1", "frame", "peal lane off", "frame")[len(STOP):]
        self.expect(selected, rf"wait_for_seven .*held\.cc:{line_of(1)}")
        self.expect(frame, r"wait_for_seven ")
        self.expect(off, r"^$")
        self.expect(again, r"^#0 .*everything_waits ")

    def test_waits(self):
        waits, = gdb(HELD, *STOP, "peal waits")[len(STOP):]
        self.expect(waits, rf"^grid 1 lane 0: __syncthreads of meet at held\.cc:{line_of(0)}$",
                    rf"^grid 1 lane 1: peal::wait_until of wait_for_seven at held\.cc:{line_of(1)}$",
                    r"^thread 1: peal::(launch|Launch::wait) of .* at held\.cc:\d+$")
        self.assertNotRegex(waits, r"lane [23]")

    def test_queues(self):
        queues, = gdb(HELD, *STOP, "peal queues")[len(STOP):]
        self.expect(queues, r"^context 0 of PE 0 of 1$",
                    r"^  queue +to pe +qpn +reserved +published +rung +completed +status$")
        rows = re.findall(r"^  (\d+) +0 +0x\w+ +(\d+) +(\d+) +(\d+) +(\d+) +ok$", queues, re.M)
        self.assertEqual([row[0] for row in rows], ["0", "1", "2", "3"])
        for _, reserved, published, rung, completed in rows:
            self.assertEqual((reserved, published), (published, rung))
            self.assertLessEqual(int(completed), int(rung))

    # The count of a queue that was never linked is below 0: it was shown as 18446744069414584323.
    def test_unlinked_queues(self):
        ask = "python print([gdb.peal.is_unlinked(published, completed, 1 << 32) for published, completed in ({})])"
        said, = gdb(HELD, *STOP, ask.format("(0, 2**64 - 2**32), (4, 18446744069414584323), (4, 4), (2, 2**64 - 1)"))[3:]
        self.expect(said, r"^\[True, True, False, False\]$")

    def test_wrong_lanes_are_refused(self):
        ended, absent, word = gdb(HELD, *STOP, "peal lane 3 bt", "peal lane 9 bt", "peal lane x bt")[len(STOP):]
        self.expect(ended, "peal lane 3: it has ended")
        self.expect(absent, "peal lane 9: there is no such lane; see peal lanes")
        self.expect(word, "peal lane x: give the number of a lane")

    def test_without_a_process(self):
        for said in gdb(HELD, "peal lanes", "peal queues", "peal waits"):
            self.expect(said, "peal: no process: run the program first, or attach to one")

    # After a stop that was longer than PEAL_TIMEOUT every wait of the process ended with kTimeout.
    def test_deadlines_stand_still_while_gdb_holds_the_process(self):
        end = gdb(HELD, *STOP, "set *(long*)&held_seconds = 3600", "delete", "continue")[-1]
        self.expect(end, r"exited normally\]$")


class Put(unittest.TestCase):
    # docs/architecture.md#life-of-a-put names the files, which a reader comes to in this order.
    def test_from_the_call_to_the_request_there_are_six_files(self):
        compose = "peal::mlx5::compose(peal::mlx5::Header const&, peal::nic::Write const&)"
        stack = gdb(HELD_FULL, "tbreak put_by_warp", "run", f"tbreak {compose}", "continue", "bt")[-1]
        frames = re.findall(r"^#\d+ .* at (?:\S*/)?(device/\S+):\d+$", stack, re.M)
        self.assertIn("device/rma.h", frames, stack)
        way = [file for file in reversed(frames[:frames.index("device/rma.h") + 1]) if not file.startswith("device/base/")]
        stays = [file for file, before in zip(way, [None, *way]) if file != before]
        self.assertEqual(stays, ["device/rma.h", "device/detail/access.h", "device/detail/transfer.h", "device/nic/post.h",
                                 "device/mlx5/nic.h", "device/mlx5/wqe.h"], stack)


def main():
    reason = skip_reason()
    if reason is not None:
        print(f"skipped: {reason}")
        cases = f'<testcase name="gdb"><skipped message="{reason.replace(chr(34), chr(39))[:200]}"/></testcase>'
        pathlib.Path(os.environ.get("XML_OUTPUT_FILE", os.devnull)).write_text(
            f'<testsuites><testsuite name="gdb">{cases}</testsuite></testsuites>')
        return
    unittest.main(argv=sys.argv[:1], verbosity=2)


if __name__ == "__main__":
    main()
