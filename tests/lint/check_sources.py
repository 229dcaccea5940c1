#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What every source file of the tree promises: licence line, size, format, descriptors that have an owner, no `#if`, and
headers that compile alone. And the size of BUILD files.

check_sources.py [--headers] ROOT     --headers adds the compilations (in parallel, headers that include one another in
                                      one run of g++)
"""
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys

from check_names import listed

FOLDERS = (
    "base", "bootstrap", "compat", "device", "doctor", "examples", "host", "kernels", "peal", "perf", "run", "simt", "softnic",
    "tests",
)
BUILD_FOLDERS = FOLDERS + ("bazel", "docs", "packaging", "python")
MAX_LINES = 500
MAX_BUILD_LINES = 300
# The heap: .bazelrc says why.
FLAGS = ["-std=c++20", "-fsyntax-only", "--param=ggc-min-heapsize=1048576", "-Wall", "-Wextra", "-Werror", "-Wshadow",
         "-Wconversion", "-x", "c++", "-"]
MPI = "/usr/lib/x86_64-linux-gnu/openmpi/include"


# Descriptors that no Fd moves away from standard input, output and error (base/fd.h).
UNOWNED = re.compile(
    r"\bint\s+\w+\s*=\s*(::)?(open|openat|socket|memfd_create|accept4?|eventfd|epoll_create1?|signalfd|dup)\("
    r"|\bstd::o?fstream\b|\bfopen\(|\bpipe\(|F_DUPFD(_CLOEXEC)?, [012]\b|\bdlopen\((?!\{)(?!.*RTLD_NOLOAD)")
UNOWNED_PLANTED = (
    'const int fd = ::memfd_create("x", MFD_CLOEXEC);', "int s = socket(AF_UNIX, SOCK_STREAM, 0);",
    "std::ofstream out(path);", 'std::fopen(path, "we")', "::pipe(ends)", "::fcntl(fd, F_DUPFD_CLOEXEC, 0)",
    "::dlopen(path.c_str(), RTLD_NOW)",
)
# The helpers themselves; a program that has filled the three before.
UNOWNED_HOMES = ("base/fd.h", "base/library.h", "softnic/gpu/engine_main.cc")

# C says of it that it is read anew each time.
READ_AGAIN = ("simt/runtime/cuda/assert.h",)
# They read headers of CUDA's, or of its C++ libraries, that a user has.
NOT_ALONE = ("device/base/order_gpu.h", "simt/runtime/cccl/", "tests/cuda_programs/check.h")


def check_descriptors(root, file):
    name = file.relative_to(root).as_posix()
    if name in UNOWNED_HOMES or name.startswith(("tests/", "perf/", "examples/", "compat/examples/")):
        return
    for number, line in enumerate(file.read_text().splitlines(), 1):
        code = line.partition("//")[0]
        if UNOWNED.search(code):
            yield f"{name}:{number}: a descriptor that no Fd takes may be 2, and a program's log go into it: {code.strip()}"


# What a file is compiled for device/base says, once for all others; conditionals.txt lists who else may ask.
CONDITIONAL = re.compile(r"\s*#\s*(if|ifdef|ifndef|elif)\b")
CONDITIONAL_PLANTED = {
    "#if PEAL_ON_GPU": True, "#ifdef __cplusplus": True, "#ifndef MAP_HUGE_2MB": True, "  # elif PEAL_SIM": True,
    "#include <ifaddrs.h>": False, "// #if": False, "if constexpr (kChecksCalls) {": False, "#define PEAL_IF(x) x": False,
}


def check_conditionals(root, files):
    wrong = [line for line, is_one in CONDITIONAL_PLANTED.items() if bool(CONDITIONAL.match(line)) != is_one]
    yield from (f"check_sources.py takes {line!r} for what it is not" for line in wrong)
    reasons = listed(root, "conditionals.txt")
    asking = set()
    for file in files:
        name = file.relative_to(root).as_posix()
        if name.startswith(("device/base/", "tests/")):
            continue
        lines = [number for number, line in enumerate(file.read_text().splitlines(), 1) if CONDITIONAL.match(line)]
        asking |= {name} if lines else set()
        if lines and name not in reasons:
            yield f"{name}:{lines[0]}: #if lives in device/base; or say in tests/lint/conditionals.txt why here, too"
    yield from (f"conditionals.txt: {name} has no #if: take it out" for name in sorted(reasons.keys() - asking))


def sources(root):
    return sorted(f for folder in FOLDERS for p in ("*.h", "*.cuh", "*.cc", "*.cu") for f in (root / folder).rglob(p))


def check_text(root, file):
    name = file.relative_to(root).as_posix()
    lines = file.read_text().splitlines()
    if not lines or "SPDX-License-Identifier: Apache-2.0" not in lines[0]:
        yield f"{name}:1: the first line must be // SPDX-License-Identifier: Apache-2.0"
    if len(lines) > MAX_LINES:
        yield f"{name}: {len(lines)} lines; {MAX_LINES} is the limit: probably two rooms in one"
    if file.suffix == ".h" and name not in READ_AGAIN and not any(line.strip() == "#pragma once" for line in lines[:30]):
        yield f"{name}: no #pragma once"


def build_files(root):
    return [root / "BUILD.bazel", *sorted(f for folder in BUILD_FOLDERS for f in (root / folder).rglob("BUILD.bazel"))]


def check_build_file(root, file):
    count = len(file.read_text().splitlines())
    if count > MAX_BUILD_LINES:
        yield f"{file.relative_to(root)}: {count} lines; {MAX_BUILD_LINES} is the limit: a macro, or a package of its own"


def check_format(files):
    result = subprocess.run(["clang-format", "--dry-run", "--Werror", *map(str, files)], capture_output=True, text=True)
    if result.returncode != 0:
        yield from (line for line in result.stderr.splitlines() if "error:" in line)


def always_included(text):
    """What a header includes whatever it is compiled for: not behind an `#if`."""
    depth = 0
    for line in text.splitlines():
        directive = re.match(r'#\s*(if|endif|include "(.*)")', line)
        if directive is None:
            continue
        if directive[2] is None:
            depth += 1 if directive[1] == "if" else -1
        elif depth == 0:
            yield directive[2]


def included_headers(root, headers):
    """For each header the headers of `headers` that it includes, and those that they include."""
    names = {header.relative_to(root).as_posix(): header for header in headers}
    direct = {name: list(always_included(header.read_text())) for name, header in names.items()}
    found = {}

    def all_of(name):
        if name not in found:
            found[name] = set()
            for included in filter(names.__contains__, direct[name]):
                found[name] |= {included} | all_of(included)
        return found[name]

    return {name: all_of(name) for name in sorted(names)}


def chains(included):
    """Lists of headers, each of which includes all that stand before it in its list; every header is in one list.

    One run of g++ that reads a list in its order compiles each of them alone: the first is; a later one would read those
    before it anyway. As few lists as there can be: a matching of each header with one that includes it.
    """
    after, before = {}, {}

    def match(header, tried):
        for user in (user for user in included if header in included[user] and user not in tried):
            tried.add(user)
            if user not in before or match(before[user], tried):
                before[user], after[header] = header, user
                return True
        return False

    for header in included:
        match(header, set())
    for first in (header for header in included if header not in before):
        chain = [first]
        while chain[-1] in after:
            chain.append(after[chain[-1]])
        yield chain


def check_chain(root, chain):
    """What g++ says of those that do not compile alone. Some do not go together: they say what stands in for what."""
    command = ["g++", *FLAGS, "-I", str(root), "-isystem", MPI]
    code = "".join(f'#include "{name}"\n' for name in chain)
    result = subprocess.run(command, input=code, capture_output=True, text=True)
    if result.returncode == 0:
        return []
    if len(chain) == 1:
        return [f"{chain[0]}: does not compile alone:\n{result.stderr}"]
    return [line for name in chain for line in check_chain(root, [name])]


def main(arguments):
    root = pathlib.Path(arguments[-1]).resolve()
    files = sources(root)
    bad = [line for f in files for line in check_text(root, f)]
    bad += [f"check_sources.py does not see: {line}" for line in UNOWNED_PLANTED if not UNOWNED.search(line)]
    bad += [line for f in files for line in check_descriptors(root, f)]
    bad += check_conditionals(root, files)
    bad += [line for f in build_files(root) for line in check_build_file(root, f)]
    bad += check_format(files)
    headers = [f for f in files if f.suffix == ".h"] if "--headers" in arguments else []
    headers = [f for f in headers if not f.relative_to(root).as_posix().startswith(NOT_ALONE)]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for lines in pool.map(lambda chain: check_chain(root, chain), chains(included_headers(root, headers))):
            bad += lines
    print("\n".join(bad) or f"sources: {len(files)} files, {len(headers)} headers compiled alone, ok")
    return bool(bad) or not files


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
