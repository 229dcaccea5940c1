#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""report.py RESULTS TIMES sums up a run of tools/test: counts the cases of all test.xml reports, names failures and
skips, the ten slowest steps (times.py), and closes with `N passed, N failed[, N skipped]`. Exit code 1 when anything
failed, was broken, or nothing ran."""
import pathlib
import shutil
import sys
import xml.etree.ElementTree as ElementTree

import times


def cases(report, root):
    """Yields (name, outcome, text) of each case in one report."""
    target = report.parent.relative_to(root).as_posix()
    try:
        tree = ElementTree.parse(report)
    except ElementTree.ParseError as error:
        yield target, "failed", f"its report cannot be read: {error}"
        return
    for case in tree.iter("testcase"):
        name = f"{target}: {case.get('classname', '')}.{case.get('name', '')}"
        bad = case.find("failure") if case.find("failure") is not None else case.find("error")
        skipped = case.find("skipped")
        if bad is not None:
            yield name, "failed", bad.get("message", "")
        elif skipped is not None or case.get("result") in ("skipped", "suppressed"):
            yield name, "skipped", (skipped.get("message", "") if skipped is not None else "disabled")
        else:
            yield name, "passed", ""


def failed_targets(root):
    """Test programs that ended badly without a failed case in their report (a crash, a timeout)."""
    for log in root.rglob("test.log"):
        report = log.parent / "test.xml"
        if not report.exists():
            yield log.parent.relative_to(root).as_posix(), "failed", "left no report (crash or timeout)"


def main(root, spent):
    found = [c for report in sorted(root.rglob("test.xml")) for c in cases(report, root)]
    found += list(failed_targets(root))
    for mark in sorted((root / "lint").glob("*.passed")) + sorted((root / "lint").glob("*.failed")):
        found.append((f"lint: {mark.stem}", mark.suffix[1:], "see above"))
    if (root / "broken").exists():
        found.append(("bazel", "failed", "the build or the test run broke off, see above"))
    if not shutil.which("nvcc") and not pathlib.Path("/usr/local/cuda/bin/nvcc").exists():
        found.append(("gpu", "skipped", "no nvcc on this machine: the CUDA sources were not compiled"))
    count = {outcome: [c for c in found if c[1] == outcome] for outcome in ("passed", "failed", "skipped")}
    for outcome in ("failed", "skipped"):
        for name, _, text in count[outcome]:
            # Where, and the first line of why.
            print(": ".join([outcome, name, *text.strip().splitlines()[:2]]))
    closing = f"{len(count['passed'])} passed, {len(count['failed'])} failed"
    if count["skipped"]:
        closing += f", {len(count['skipped'])} skipped"
    print(times.slowest(spent))
    print(closing)
    return bool(count["failed"]) or not count["passed"]


if __name__ == "__main__":
    sys.exit(main(*map(pathlib.Path, sys.argv[1:])))
