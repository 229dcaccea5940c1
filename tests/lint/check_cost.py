#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the tests cost in things that can be counted, against the limits of cost_limits.txt.

check_cost.py ROOT    asks Bazel, whose server the tests need anyway
"""
import functools
import pathlib
import re
import subprocess
import sys

LIMITS = pathlib.Path(__file__).with_name("cost_limits.txt")
QUERIES = {
    "test_targets": "tests(//...) except attr(tags, manual, //...)",
    "test_programs": 'kind("cc_(test|binary)", //tests/...) except attr(tags, manual, //tests/...)',
    "nvcc_actions": 'kind("_cuda_object_rule", //...) except attr(tags, manual, //...)',
}
JOINED = 'kind("one_of_several", //...)'
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.M)


def limits(text):
    """{what: limit} of lines "what limit why". Raises ValueError for a line without a reason."""
    found = {}
    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        words = line.split(maxsplit=2)
        if len(words) < 3 or not words[1].isdigit():
            raise ValueError(f"{LIMITS.name}: '{line}' is not: what, limit, why")
        found[words[0]] = int(words[1])
    return found


def excesses(counts, allowed):
    for what, count in counts.items():
        if what not in allowed:
            yield f"{LIMITS.name} has no limit for {what}, of which there are {count}"
        elif count > allowed[what]:
            yield f"{what}: {count}, and the limit is {allowed[what]}; raise it in {LIMITS.name} with the reason, or do without"
    yield from (f"{LIMITS.name}: nothing counts {what}" for what in allowed if what not in counts)


def included_by(file, includes_of):
    """All that `file` includes, by whatever way."""
    found, waiting = set(), [file]
    while waiting:
        new = set(includes_of(waiting.pop())) - found
        found |= new
        waiting += new
    return found


def joined(xml):
    """The lists of sources that are compiled as one file, by what Bazel says of the rules that join them."""
    return [[label.replace(":", "/").lstrip("/") for label in re.findall(r'<label value="(.*?)"', sources)]
            for sources in re.findall(r'<list name="srcs">(.*?)</list>', xml, re.S)]


def translation_units_with(root, header, together):
    """What is compiled with `header`; each of the lists `together` counts once."""
    @functools.cache
    def includes_of(file):
        path = root / file
        return INCLUDE.findall(path.read_text()) if path.is_file() else []

    sources = {f.relative_to(root).as_posix() for p in ("*.cc", "*.cu") for f in (root / "tests").rglob(p)}
    units = together + [[source] for source in sources.difference(*together)]
    return sum(any(header in included_by(source, includes_of) for source in unit) for unit in units)


def answer(root, *query):
    command = ["bazel", "query", "--noshow_progress", *query]
    result = subprocess.run(command, cwd=root, capture_output=True, text=True)
    if result.returncode:
        sys.exit(f"bazel query '{query[-1]}': {result.stderr}")
    return result.stdout


def main(root):
    counts = {what: len(answer(root, query).split()) for what, query in QUERIES.items()}
    counts["files_with_peal.h"] = translation_units_with(root, "peal/peal.h", joined(answer(root, "--output=xml", JOINED)))
    bad = list(excesses(counts, limits(LIMITS.read_text())))
    print("\n".join(bad) or "cost: " + ", ".join(f"{n} {what}" for what, n in counts.items()) + ", ok")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]).resolve()))
