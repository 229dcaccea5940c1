#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One word, one thing: a name of a type, an alias or a concept is defined by one header of the project, or names.txt
says why by several.

check_names.py ROOT
"""
import collections
import pathlib
import re
import sys

FOLDERS = (
    "base", "bootstrap", "compat", "device", "doctor", "host", "kernels", "peal", "perf", "python", "run", "simt",
    "softnic",
)
TYPE = re.compile(
    r"(?:struct|class|enum class|enum|union) (?:\[\[\w+\]\] )?(?:alignas\([^)]*\) )?(\w+)(?: final)?"
    r"(?:\s*:(?!:)\s*[^;{]*)?(?:\s*\{|$)|(?:using|concept) (\w+) =")
PLANTED = {
    "struct Place {": "Place", "class Batch final : public Other {": "Batch", "enum class Use : uint8_t {": "Use",
    "class [[nodiscard]] Fetched {": "Fetched", "enum Plain {": "Plain", "class Fd": "Fd",
    "using Alias = int;": "Alias", "concept Fits = true;": "Fits", "using std::min;": None, "  using Inner = int;": None,
    "struct Later;": None, "  struct Inner {": None, "class Outer::Inner {": None,
}


def defined(line):
    """The name that a line of a header gives a type, an alias or a concept of a namespace, or None."""
    found = TYPE.match(line)
    return (found.group(1) or found.group(2)) if found else None


def headers_by_type(root):
    found = collections.defaultdict(set)
    for folder in FOLDERS:
        for file in sorted(f for pattern in ("*.h", "*.cuh") for f in (root / folder).rglob(pattern)):
            name = file.relative_to(root).as_posix()
            if "/examples/" in name:
                continue
            for line in file.read_text().splitlines():
                if defined(line):
                    found[defined(line)].add(name)
    return found


def listed(root, file="names.txt"):
    """{name: reason} of a list."""
    lines = (root / "tests/lint" / file).read_text().splitlines()
    return dict(re.split(r"\s{2,}", line.strip(), maxsplit=1) for line in lines if line and not line.startswith("#"))


def main():
    root = pathlib.Path(sys.argv[1])
    wrong = [f"check_names.py: {line!r} defines {name}" for line, name in PLANTED.items() if defined(line) != name]
    types, reasons = headers_by_type(root), listed(root)
    several = {name: files for name, files in types.items() if len(files) > 1}
    for name in sorted(several.keys() - reasons.keys()):
        wrong.append(f"{name} is defined by {', '.join(sorted(several[name]))}: give one of them another name, or say "
                     "in tests/lint/names.txt why both have it")
    wrong += [f"names.txt: {name} is defined once: take it out" for name in sorted(reasons.keys() - several.keys())]
    for line in wrong:
        print(line)
    print(f"names: {len(types)} names, {len(several)} by several headers, {f'{len(wrong)} wrong' if wrong else 'ok'}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
