# SPDX-License-Identifier: Apache-2.0
"""Pages of the reference, one a header: reStructuredText of what headers.read() finds.

A group is what one comment tells of: a call with its overloads, or neighbours without a comment of their own.
"""
import dataclasses
import re

import headers

# Public by necessity: what other headers of device/ need of these. Users have no call for them.
INTERNAL = {
    "device/base/scope.h": {
        "require_all_blocks", "sync_lanes", "sync_block_lanes", "by_leader", "any", "first_failure", "Coalesced",
        "LaunchedGrid", "launched_grid",
    },
    "device/reduce_op.h": {"Accumulated", "op::Wrapping"},
    "device/team.h": {"kTeamByNic"},
    "host/runtime.h": {"Runtime::require"},
    "host/calls.h": {"CallTicket::CallTicket", "InOrder", "AtOnce", "ByTicket", "Calls::Calls", "Calls::site",
                     "HostCalls::Calls"},
    "device/base/launch.h": {"Launch::Launch"},
    "device/base/stream.h": {"Graph::Graph"},
}
# Whose members are the calls of kernels of the same name; "": the C API.
AS_KERNELS = {"", "Batch", "Calls", "HostCalls", "Runtime"}
UNSAID = re.compile(r"~|operator|= ?delete")
LITERAL = re.compile(r"`([^`\n]+)`|(\bk[A-Z]\w+\b|\bPEAL_[A-Z0-9_]+\b|\b[\w:.]*\w\(\)|\b[\w]+(?:::\w+)+)")
PAGE = re.compile(r"\bdocs/(\w+(?:/\w+)*)\.md\b")
BODY = re.compile(r"\)((?: const)?(?: noexcept)?(?: requires\(.*?\))?) \{")


@dataclasses.dataclass
class Group:
    kind: str
    scope: str
    text: str
    entries: list
    same_as: str = ""  # what the page says of a call without a comment: which call of kernels it is

    @property
    def name(self):
        return self.entries[0].name

    @property
    def label(self):
        return "call-" + re.sub(r"\W+", "-", f"{self.entries[0].file}-{self.name}-{self.entries[0].line}").lower()


def is_internal(entry):
    names = INTERNAL.get(entry.file, ())
    return any(re.match(rf"{name}\b", entry.name) for name in names)


def is_listed(entry):
    """Whether the members of a class are told one by one; of others the definition shows all."""
    return entry.kind == "class"


def groups_of(entries, lines):
    """The groups of one header of those lines, in its order; members of classes are groups with the class as their scope."""
    shown = [e for e in entries if not is_internal(e)]
    listed = {e.name for e in shown if is_listed(e)}
    plain = {e.name for e in shown if e.kind in ("struct", "enum") and not is_listed(e)}
    groups = []
    for entry in shown:
        if entry.scope in plain or (entry.scope and any(entry.scope.startswith(f"{name}::") for name in plain)):
            continue
        if UNSAID.search(entry.signature):
            continue
        if entry.scope and entry.scope not in listed and entry.scope not in ("op", "bootstrap"):
            continue
        home = None if entry.text else home_of(entry, groups, lines)
        if home:
            home.entries.append(entry)
        else:
            groups.append(Group(entry.kind, entry.scope, entry.text, [entry]))
    return groups


def home_of(entry, groups, lines):
    """The group that an entry without a comment belongs to: an overload's, or its neighbour's without a gap between."""
    if entry.kind not in ("function", "variable"):
        return None
    same = [g for g in groups if g.kind == entry.kind and g.name == entry.name and g.text]
    if same:
        return same[-1]
    last = groups[-1] if groups else None
    if not last or not last.text or last.kind != entry.kind or last.scope != entry.scope:
        return None
    between = lines[last.entries[-1].line - 1:entry.line]
    return last if all(line.strip() for line in between) else None


def escape(text):
    return re.sub(r"([\\*|])", r"\\\1", re.sub(r"(?<=\w)_(?=\W|$)", r"\\_", text))


def inline(text):
    """A line of prose; names of code become literals, names of pages links."""
    parts, at = [], 0
    for found in LITERAL.finditer(text):
        parts += [links(text[at:found.start()]), f"\\ ``{(found.group(1) or found.group(2)).strip()}``\\ "]
        at = found.end()
    parts.append(links(text[at:]))
    return "".join(parts)


def links(text):
    parts, at = [], 0
    for found in PAGE.finditer(text):
        parts += [escape(text[at:found.start()]), f":doc:`/{found.group(1)}`"]
        at = found.end()
    parts.append(escape(text[at:]))
    return "".join(parts)


def prose(text, indent=""):
    """A comment's text: paragraphs, and what is indented in it as it stands."""
    lines = text.strip("\n").rstrip().split("\n")
    lines = [line.rstrip() for line in lines]
    if lines and not lines[0].startswith(" "):
        lines[0] = " " + lines[0]
    out, code, at = [], [], 0
    for line in [*lines, ""]:
        if line.startswith("   ") or (code and not line and at + 1 < len(lines) and lines[at + 1].startswith("   ")):
            code.append(line)
        else:
            if code:
                out += ["", ".. code-block:: cpp", "   :force:", ""] + ["   " + c[1:] if c else "" for c in code] + [""]
                code = []
            out.append(inline(line.strip()))
        at += 1
    return "\n".join(indent + line if line else "" for line in out).rstrip() + "\n"


def shortened(definition):
    """A definition without macros, private parts and bodies of functions."""
    out, depth, private = [], 0, False
    for line in definition.splitlines():
        line = re.sub(r"\b(PEAL_HD|PEAL_DEVICE) ", "", line)
        if depth:
            depth += line.count("{") - line.count("}")
            continue
        if line.strip() in ("private:", "protected:"):
            private = True
        if private and not re.match(r"^\s*};?", line):
            continue
        body = BODY.search(line)
        if body:
            depth = line[body.end() - 1:].count("{") - line[body.end() - 1:].count("}")
            line = line[:body.end() - 2].rstrip() + ";"
        out.append(line.replace("{ return *this; }", ";"))
    first = next((len(line) - len(line.lstrip()) for line in out if line.strip()), 0)
    return "\n".join(line[first:] for line in out if "static_assert" not in line)


DIRECTIVES = {"function": "function", "variable": "var", "enum": "enum", "struct": "struct", "class": "class",
              "concept": "concept", "type": "type"}


def declaration(entry, in_c, inside):
    """What stands behind the directive."""
    bare = entry.name.rpartition("::")[2]
    if entry.kind == "function":
        return f"{entry.template} {entry.signature}".strip() if not in_c else entry.signature
    if entry.kind == "variable":
        return f"{entry.template} {entry.signature}".strip()
    name = bare if inside else entry.name
    if entry.kind in ("enum", "type") or in_c:
        return name
    return f"{entry.template} {name}".strip()


def group_lines(group, in_c, inside):
    """One directive; its signatures one below the other."""
    domain = "c" if in_c and "::" not in group.entries[0].signature else "cpp"
    directive = f".. {domain}:{DIRECTIVES[group.kind]}:: "
    lines = [f".. _{group.label}:", ""]
    seen = []
    for entry in group.entries:
        shown = declaration(entry, in_c, inside)
        if shown not in seen:
            seen.append(shown)
    lines += [directive + seen[0]] + [" " * len(directive) + shown for shown in seen[1:]] + [""]
    if group.text:
        lines += [prose(group.text, "   ")]
    elif group.same_as:
        lines += [f"   {group.same_as}", ""]
    first = group.entries[0]
    text = shortened(first.definition) if first.definition and group.kind != "class" else ""
    if group.kind == "type":
        text = first.definition
    if text:
        lines += ["   .. code-block:: cpp", "", *("      " + line for line in text.splitlines()), ""]
    return lines


def intro(text):
    """The header's opening comment, without the licence line."""
    if text.startswith("/*"):
        body = text[2:text.index("*/")].splitlines()
        lines = [re.sub(r"^ \* ?", " ", line) for line in body]
    else:
        lines = []
        for line in text.splitlines():
            if not line.startswith("//"):
                break
            lines.append(line[2:])
    lines = [line for line in lines if "SPDX-License-Identifier" not in line and "clang-format o" not in line]
    while lines and not lines[0].strip():
        lines.pop(0)
    return "\n".join(lines)


def name_calls_of_kernels(told):
    """Calls of the host, of C and of batches without a comment of their own: those of kernels have their names."""
    kernels = {e.name: g for _, file, groups in told for g in groups for e in g.entries
               if file.startswith("device/") and g.kind == "function" and not g.scope and g.text}
    for _, _, groups in told:
        for group in groups:
            name = group.name.rpartition("::")[2].removeprefix("peal_").removesuffix("_on_stream")
            if group.kind == "function" and not group.text and name in kernels and group.scope in AS_KERNELS:
                group.same_as = f"As :ref:`{name} <{kernels[name].label}>` in kernels."


def what_it_does(group):
    return inline(first_sentence(group.text)) if group.text else group.same_as


def summary(groups):
    """The page's calls, a row each."""
    rows = []
    for group in groups:
        names = list(dict.fromkeys(e.name for e in group.entries))
        rows += [f"   * - :ref:`{', '.join(names)} <{group.label}>`", f"     - {what_it_does(group)}"]
    return ["", ".. list-table::", "   :widths: 30 70", "   :class: summary", "", *rows, ""] if len(groups) > 1 else []


def page(title, file, text, groups):
    in_c = file.startswith("peal/c_")
    lines = [title, "=" * len(title), "", f"``#include \"{included_by(file)}\"`` · declared in "
             f"`{file} <source:{file}>`__", "", prose(intro(text)), "",
             *summary(groups)]
    scopes = ["op" if g.scope == "op" else "bootstrap" if g.scope == "bootstrap" else "" for g in groups]
    now = None
    for group, space in zip(groups, scopes):
        nested = group.scope and not space
        if space != now and not nested:
            lines += ([] if in_c else [".. cpp:namespace:: " + ("peal" + (f"::{space}" if space else "")), ""])
            now = space
        inside = bool(group.scope)
        body = group_lines(group, in_c, inside)
        lines += ["   " + line if line and nested else line for part in body for line in part.split("\n")]
    return "\n".join(lines) + "\n"


def included_by(file):
    """What a program includes to have it."""
    if file.startswith("peal/"):
        return file
    return "peal/peal.h" if not file.startswith("bootstrap/") else file


def first_sentence(text):
    flat = " ".join(text.split())
    found = re.match(r"(.*?[.:;])(\s|$)", flat)
    return found.group(1).rstrip(":;.") + "." if found else flat


def index(groups_by_page):
    """All calls in alphabetical order."""
    rows = []
    for title, file, groups in groups_by_page:
        for group in groups:
            for name in dict.fromkeys(e.name for e in group.entries):
                rows.append((name.lower(), name, group, title, file))
    lines = ["All calls", "=========", "", "Every call, class, type and constant of the headers, by name.", "",
             ".. list-table::", "   :header-rows: 1", "   :widths: 30 50 20", "",
             "   * - name", "     - what it does", "     - page"]
    for _, name, group, title, file in sorted(rows, key=lambda row: row[:2]):
        told = what_it_does(group) or f"({group.kind})"
        lines += [f"   * - :ref:`{name} <{group.label}>`", f"     - {told}", f"     - :doc:`{title} </reference/{file[:-2]}>`"]
    return "\n".join(lines) + "\n"


def write(root, titles, out, work):
    """titles: {header: title of its page}. Writes the pages below `out`; answers how many calls they have."""
    entries = headers.read(root, list(titles), work)
    told = []
    for file, title in titles.items():
        text = (root / file).read_text()
        groups = groups_of([e for e in entries if e.file == file], text.splitlines())
        told.append((title, file, groups))
    name_calls_of_kernels(told)
    for title, file, groups in told:
        text = (root / file).read_text()
        target = out / f"{file[:-2]}.rst"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(page(title, file, text, groups))
    (out / "all.rst").write_text(index(told))
    functions = [e for _, _, groups in told for g in groups for e in g.entries if e.kind == "function"]
    untold = sorted({f"{e.file}: {e.name}" for _, _, groups in told for g in groups if not (g.text or g.same_as) for e in g.entries
                     if e.kind == "function"})
    return {"headers": len(told), "calls": len({(e.file, e.name) for e in functions}), "signatures": len(functions), "untold": untold}
