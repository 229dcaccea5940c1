#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds README.md and docs/ to the tree: README's kernel is examples/hello.cu word for word, docs/settings.md has
the names and defaults that the code reads and README some of them, docs/debugging.md every planted mistake, links lead
somewhere, files that are named exist, and no document outgrows its limit.

check_readme.py ROOT
"""
import pathlib
import re
import sys

LIMITS = {"README.md": 200, "CONTRIBUTING.md": 100, "docs/**/*.md": 300}
WIDTH = 120  # of prose; tables, code and links may be wider
SETTING = re.compile(r'X\(\s*[\w:]+,\s*\w+,\s*"([A-Z0-9_]+)",\s*"([^"]*)"')
SOFTNIC_SETTING = re.compile(r"^//\s+(PEAL_SOFTNIC_[A-Z_]+)\s.*\(([^()]+)\)$", re.M)
GETENV = re.compile(r'"(PEAL_[A-Z0-9_]+)"')
ROW = re.compile(r"^\| `([A-Z0-9]+_[A-Z0-9_]+)` \| (?:`([^`]*)`|empty) \|", re.M)
FILE = re.compile(r"`(\w+(?:/\w+)*/\w+\.(?:h|cc|cu|inc|py|sh|md))`")  # X stands for a name in X_test.cc
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")
CODE = re.compile(r"^ {4}.*$|`[^`\n]*`", re.M)  # kernel[grid, block](x) is no link


def kernel_of(source):
    """What README shows of the example: all but its opening comment."""
    return source[source.index("#include"):]


def check_kernel(readme, example):
    shown = re.search(r"```cpp\n(.*?)```", readme, re.S)
    if not shown or shown.group(1) != kernel_of(example):
        yield "README.md: its first cpp block is not examples/hello.cu from the first #include on"


def settings(config, softnic):
    """Name -> default, from the table of host/base/config.h and the opening comment of softnic/presentation/settings.h."""
    joined = re.sub(r"\s*\\\n\s*", " ", config)
    return dict(SETTING.findall(joined)) | dict(SOFTNIC_SETTING.findall(softnic))


def check_settings(name, text, wanted, whole):
    """The tables of one document; the `whole` one has every setting."""
    shown = dict(ROW.findall(text))
    for setting in sorted(wanted.keys() | shown.keys()):
        if setting not in shown:
            if whole:
                yield f"{name}: {setting} is missing from its tables"
        elif setting not in wanted:
            yield f"{name}: {setting} is no setting"
        elif shown[setting] != wanted[setting]:
            yield f"{name}: {setting} has the default '{wanted[setting]}', the table says '{shown[setting]}'"


def check_getenv(softnic_reader, wanted):
    for name in sorted(set(GETENV.findall(softnic_reader)) ^ {n for n in wanted if n.startswith("PEAL_SOFTNIC_")}):
        yield f"softnic/presentation/settings.h: {name} is not both documented there and read in settings.cc"


def check_plants(text, sources):
    """docs/debugging.md lists every mistake that tests/checked and tests/install/simulated.cu plant."""
    plants = re.findall(r'{"(\w+)",', "".join(sources))
    if not plants:
        yield "tests/checked: no plant was found in its headers"
    for plant in plants:
        if f"`{plant}`" not in text:
            yield f"docs/debugging.md: {plant} is missing from its table of planted mistakes"


def check_files(name, text, exists):
    for file in FILE.findall(text):
        if not re.search(r"\bX", file) and not exists(file):
            yield f"{name}: names {file}, which is not there"


def check_shape(name, text, limit, exists):
    lines = text.splitlines()
    if len(lines) > limit:
        yield f"{name}: {len(lines)} lines; {limit} is the limit"
    code = False
    for number, line in enumerate(lines, 1):
        code ^= line.startswith("```")
        if len(line) > WIDTH and not code and not line.startswith(("|", "    ", "```")):
            yield f"{name}:{number}: {len(line)} columns; {WIDTH} is the limit"
    for target in LINK.findall(CODE.sub("", text)):
        if not exists(target):
            yield f"{name}: links to {target}, which is not there"


def main(root):
    readme = (root / "README.md").read_text()
    wanted = settings((root / "host/base/config.h").read_text(), (root / "softnic/presentation/settings.h").read_text())
    bad = [*check_kernel(readme, (root / "examples/hello.cu").read_text())]
    bad += check_settings("README.md", readme, wanted, False)
    bad += check_settings("docs/settings.md", (root / "docs/settings.md").read_text(), wanted, True)
    bad += check_getenv((root / "softnic/presentation/settings.cc").read_text(), wanted)
    files = [*sorted((root / "tests/checked").glob("*.h")), root / "tests/install/simulated.cu"]
    plants = [file.read_text() for file in files]
    bad += check_plants((root / "docs/debugging.md").read_text(), plants)
    documents = [(file, limit) for pattern, limit in LIMITS.items() for file in sorted(root.glob(pattern))]
    for file, limit in documents:
        name = file.relative_to(root).as_posix()
        bad += check_files(name, file.read_text(), lambda named: (root / named).is_file())
        bad += check_shape(name, file.read_text(), limit, lambda target, home=file.parent: (home / target).exists())
    print("\n".join(bad) or f"docs: {len(documents)} documents, {len(wanted)} settings, ok")
    return bool(bad) or not wanted


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()))
