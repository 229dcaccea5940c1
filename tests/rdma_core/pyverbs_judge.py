# SPDX-License-Identifier: Apache-2.0
"""Runs rdma-core's tests and compares their outcomes with a list.

  pyverbs_judge.py FOLDER LIST ib|roce

FOLDER holds the package `tests`. A line of LIST is `WHERE NAME`, NAME as in test_mr.MRTest.test_reg_mr:
  both, ib, roce   the test must pass on that link layer
Any other test may skip only. A test that passes and is not on the list is named as a hint.

The tests choose sizes and flags at random; each starts from a seed of its own, its name. They ask the network interface
behind a RoCE device for its hardware address. There is none: the link-local GID has the address too.
"""

import collections
import os
import random
import sys
import traceback
import unittest

PASSED, SKIPPED, FAILED = "passed", "skipped", "failed"


class Outcomes(unittest.TestResult):
    def __init__(self):
        super().__init__()
        self.of = {}
        self.told = {}

    def startTest(self, test):
        super().startTest(test)
        random.seed(name_of(test))

    def addSuccess(self, test):
        self.of.setdefault(name_of(test), PASSED)

    def addSkip(self, test, reason):
        self.of[name_of(test)] = SKIPPED
        self.told[name_of(test)] = reason

    def addFailure(self, test, error):
        self.of[name_of(test)] = FAILED
        self.told[name_of(test)] = "".join(traceback.format_exception(*error))

    addError = addFailure

    def addSubTest(self, test, subtest, error):
        if error is not None:
            self.addFailure(test, error)


def name_of(test):
    return test.id().removeprefix("tests.")


def read_list(path):
    kinds = collections.defaultdict(set)
    with open(path, encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            words = line.split("#")[0].split()
            if not words:
                continue
            if len(words) != 2 or words[0] not in ("both", "ib", "roce"):
                sys.exit(f"{path}:{number}: expected both, ib or roce, and a test's name: {line.strip()}")
            kinds[words[0]].add(words[1])
    return kinds


def mac_of(device, port, index):
    """The hardware address in the link-local GID of a port, None where there is no such GID."""
    from pyverbs.device import Context

    gid = bytes.fromhex(Context(name=device).query_gid(port, index).gid.replace(":", "")) if index is not None else b""
    if gid[:8] != b"\xfe\x80" + bytes(6) or gid[11:13] != b"\xff\xfe":
        return None
    return bytes((gid[8] ^ 2, *gid[9:11], *gid[13:])).hex(":")


def run_suite(folder):
    sys.path[:0] = [folder, os.path.join(folder, "tests")]
    sys.argv = ["tests"]
    import args_parser  # of the suite

    args_parser.parser.parse_args()
    import tests  # of the suite
    from tests.base import RDMATestCase

    RDMATestCase._get_ip_mac = lambda test, device, port, index: test.args.append(
        [device, port, index, None, mac_of(device, port, index)]
    )

    outcomes = Outcomes()
    unittest.defaultTestLoader.loadTestsFromModule(tests).run(outcomes)
    return outcomes


def judge(outcomes, kinds, link):
    """Complaints, and hints."""
    must_pass = kinds["both"] | kinds[link]
    complaints, hints = [], []
    for name in sorted(must_pass - outcomes.of.keys()):
        complaints.append(f"{name} is on the list and was not run")
    for name, outcome in sorted(outcomes.of.items()):
        told = outcomes.told.get(name, "").strip()
        if name in must_pass and outcome != PASSED:
            complaints.append(f"{name} {outcome}, must pass: {told}")
        elif outcome == FAILED:
            complaints.append(f"{name} failed: {told}")
        elif name not in must_pass and outcome == PASSED:
            hints.append(f"{name} passes and is not on the list")
    return complaints, hints


def write_outcomes(outcomes, link):
    """Of every test, with the last line of its reason, where bazel keeps what tests leave."""
    if folder := os.environ.get("TEST_UNDECLARED_OUTPUTS_DIR"):
        with open(os.path.join(folder, f"{link}.txt"), "w", encoding="utf-8") as file:
            for name, outcome in sorted(outcomes.of.items()):
                reason = (outcomes.told.get(name, "").strip().splitlines() or [""])[-1]
                print(outcome, name, reason, file=file)


def main():
    folder, path, link = sys.argv[1:]
    kinds = read_list(path)
    outcomes = run_suite(folder)
    complaints, hints = judge(outcomes, kinds, link)
    count = collections.Counter(outcomes.of.values())
    print(f"{link}: {count[PASSED]} passed, {count[SKIPPED]} skipped, {count[FAILED]} failed of {len(outcomes.of)}")
    write_outcomes(outcomes, link)
    for hint in hints:
        print(f"  hint: {hint}")
    for complaint in complaints:
        print(f"  {link}: {complaint}")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
