#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every block of code of the pages is one of three: a part of a program that tests compile (check_docs.py compares it),
commands whose programs, targets, options and settings this tree has, or marked with the reason why no test runs it:

    <!-- not run: what a kernel prints -->

check_blocks.py ROOT
"""
import functools
import pathlib
import re
import shlex
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools/site"))
import pages  # noqa: E402

ALSO = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")
# Of others; what they are given is not looked at.
FOREIGN = set("apt apt-get cd clang-format cmake docker echo g++ gcc gdb git grep mpirun nvcc pip python python3 reboot srun "
              "sudo tee torchrun ucx_perftest unzip modprobe update-initramfs".split())
# A user's own program, or a folder that a command of the block has made.
OWN = re.compile(r"^(\./|OUT/|env/bin/|/tmp/|build/|PROGRAM$)")
# Where the text of an installed program's options is.
HOMES = {"peal-run": "run", "peal-id": "run", "peal-sim": "run", "peal-trace": "run", "peal-cc": "simt/cc", "peal-doctor": "doctor",
         "peal-plot": "perf"}
ASSIGNMENT = re.compile(r"^[A-Za-z_]\w*=")
SETTING = re.compile(r"\b(?:PEAL|SIMT)_[A-Z0-9_]*[A-Z0-9]\b")
OPTION = re.compile(r"(?<![\w-])--[a-z][\w-]*")


class Tree:
    def __init__(self, root):
        self.root = root

    def has(self, path):
        return (self.root / path).exists()

    @functools.cache
    def text(self, folder):
        """All that a file, or a folder's own sources, say."""
        place = self.root / folder
        files = [place] if place.is_file() else [f for f in sorted(place.glob("*")) if f.suffix in (".h", ".cc", ".cu", ".py", ".sh", "")]
        return "\n".join(f.read_text(errors="replace") for f in files if f.is_file())

    @functools.cache
    def settings(self):
        folders = ("host/base", "bootstrap", "run", "softnic/presentation", "softnic/wire", "simt/lanes", "simt/runtime", "docs/settings.md",
                   "docs/running.md", "docs/cpu_programs.md")
        return set(SETTING.findall("\n".join(map(self.text, folders))))

    def has_target(self, label):
        """//folder:name, //folder/..., or bazel-bin/folder/name."""
        folder, _, name = label.removeprefix("//").partition(":")
        if folder.endswith("..."):
            return self.has(folder.removesuffix("...").rstrip("/") or ".")
        name = (name or folder.rpartition("/")[2]).removesuffix("_gpu")
        build = self.text(f"{folder}/BUILD.bazel") if self.has(f"{folder}/BUILD.bazel") else ""
        return f'"{name}"' in build or name == "all" or any(self.has(f"{folder}/{name}{end}") for end in (".cc", ".cu"))


def commands(text):
    """[[word]] of a shell's text, without comments; None where it is none."""
    joined = re.sub(r"\\\n\s*", " ", text)
    found = []
    for line in joined.splitlines():
        try:
            lexer = shlex.shlex(re.sub(r"\$\([^)]*\)", "OUTPUT", line), posix=True, punctuation_chars="&|;<>")
            lexer.whitespace_split = True
            words = list(lexer)
        except ValueError:
            return None
        command = []
        for word in [*words, ";"]:
            if word and set(word) <= set("&|;"):
                found += [command] if command else []
                command = []
            else:
                command.append(word)
    return found


def wrong_in(command, tree):
    """What one command names that is not there; "?" where the word is no command."""
    words = list(command)
    while words and (ASSIGNMENT.match(words[0]) or words[0] in ("export", "sudo", "time")):
        words.pop(0)
    if not words:
        return
    name = re.sub(r"^(~/peal|PREFIX)/bin/", "", words[0])
    if name == "bazel":
        labels = [re.sub(r"[^\w/:.-].*", "", w) for w in words if w.startswith("//")]
        yield from (f"target {label}" for label in labels if not tree.has_target(label))
        return
    for word in words:
        place = re.match(r"bazel-bin/([\w/]+)/([\w-]+)$", word)
        if place and not tree.has_target(f"//{place.group(1)}:{place.group(2)}"):
            yield f"target {word}"
    if name == "peal-run":  # behind its own words another command begins
        at = next((n for n, w in enumerate(words) if n and re.match(r"(peal-|bazel-bin/|\./|~/)", w)), len(words))
        yield from (w for w in wrong_in(words[at:], tree) if w != "?")
        words = words[:at]
    if name.startswith("peal-"):
        home = HOMES.get(name, "perf")
        known = tree.text(home)
        options = [w for w in words[1:] if OPTION.match(w)]
        if name not in tree.text("packaging/install.py") and name not in HOMES and not tree.has(f"perf/{name[5:].replace('-', '_')}.cu"):
            yield f"program {name}"
        yield from (f"option {o} of {name}" for o in options if OPTION.match(o).group()[2:] not in known)
    elif name.startswith(("tools/", "tests/", "perf/")) or re.match(r"^[\w-]+/tools/", name):
        path = re.sub(r"^peal/", "", name)
        if not tree.has(path):
            yield f"program {name}"
            return
        options = [OPTION.match(w).group() for w in words[1:] if OPTION.match(w)]
        known = tree.text(path) + (tree.text("doctor") if path == "tools/doctor" else "") + (
            tree.text("tests/soak") if path == "tools/soak" else "")
        yield from (f"option {option} of {name}" for option in options if option[2:] not in known)
    elif name not in FOREIGN and not OWN.match(name) and not name.startswith("bazel-bin/"):
        yield "?"


def kind_of(code, tree):
    """("program" or "commands" or "marked" or "", what is wrong)."""
    if code.program:
        return "program", []
    if code.reason:
        return "marked", []
    found = commands(code.text)
    if not found or code.language not in ("", "sh", "bash"):
        return "", []
    wrong = [w for command in found for w in wrong_in(command, tree)]
    if "?" in wrong:
        return "", []
    wrong += [f"setting {s}" for s in SETTING.findall(code.text) if s not in tree.settings()]
    return "commands", wrong


def check(texts, tree, count):
    """texts: {path: text}; counts blocks by kind in `count`."""
    for path, text in texts.items():
        for code in pages.code_blocks(text):
            kind, wrong = kind_of(code, tree)
            count[kind] = count.get(kind, 0) + 1
            if not kind:
                yield (f"{path}:{code.line}: this block is no part of a program, no commands, and has no reason why no test runs "
                       "it; <!-- FILE --> names a file that tests compile, <!-- not run: ... --> a reason")
            yield from (f"{path}:{code.line}: {what} is not there" for what in wrong)


def main(root):
    files = [*sorted((root / "docs").rglob("*.md")), *(root / name for name in ALSO)]
    count = {}
    bad = list(check({f.relative_to(root).as_posix(): f.read_text() for f in files}, Tree(root), count))
    print("\n".join(bad) or f"blocks: {sum(count.values())}, of which {count['program']} are parts of programs, {count['commands']} "
          f"commands, {count['marked']} marked, ok")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()))
