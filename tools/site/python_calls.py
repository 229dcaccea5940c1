# SPDX-License-Identifier: Apache-2.0
"""Pages of the reference for Python: what a package names in __all__, with signatures and docstrings as its sources have
them. Nothing is imported: libpeal and torch are not needed.

A section is a source file, behind its docstring; names keep their order in it.
"""
import ast
import dataclasses
import inspect
import pathlib

import reference

# Sections of the pages, in this order: file of the package -> title, and whether readers need its docstring.
SECTIONS = {
    "python/peal": {
        "_job": ("Start and end", False), "__init__": ("This PE", False), "_array": ("Arrays", True),
        "_operations": ("Transfers, signals, atomics", True), "_collectives": ("Collective calls", True), "_team": ("Teams", True),
        "_ticket": ("Calls under way", True), "_failures": ("Failures and counters", True),
        "_storage": ("Files", True), "_kernel": ("Kernels", True), "_kernel_arguments": ("Kernels' arguments", False),
        "errors": ("Errors", True),
    },
    "python/peal/torch": {
        "_start": ("Start", False), "_tensors": ("Tensors", False), "_arena": ("Memory", False),
        "__init__": ("Gather and scatter", False), "_ops": ("Operations", True),
        "_groups": ("Groups", False), "moe": ("Mixture of experts", True), "ring": ("Ring", True),
    },
}
# Classes whose objects a program makes by their names; others come from calls.
CONSTRUCTED = ("Dispatcher", "Ring", "job")


@dataclasses.dataclass
class Entry:
    kind: str  # function, class, method, attribute
    name: str  # without the package; of members without the class
    signature: str
    text: str
    line: int
    members: list = dataclasses.field(default_factory=list)


def signature_of(node, method=False):
    arguments = node.args
    if method:  # without self
        arguments = ast.arguments(arguments.posonlyargs, arguments.args[1:], arguments.vararg, arguments.kwonlyargs,
                                  arguments.kw_defaults, arguments.kwarg, arguments.defaults)
    answer = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    return f"({ast.unparse(arguments)}){answer}"


def entry_of(node):
    text = ast.get_docstring(node) or ""
    if isinstance(node, ast.FunctionDef):
        return Entry("function", node.name, signature_of(node), text, node.lineno)
    made = next((n for n in node.body if isinstance(n, ast.FunctionDef) and n.name == "__init__"), None)
    found = Entry("class", node.name, signature_of(made, True) if made and node.name in CONSTRUCTED else "", text, node.lineno)
    for member in node.body:
        if isinstance(member, ast.FunctionDef) and not member.name.startswith("_"):
            is_property = any(isinstance(d, ast.Name) and d.id == "property" for d in member.decorator_list)
            answer = f": {ast.unparse(member.returns)}" if is_property and member.returns else ""
            found.members.append(Entry("attribute" if is_property else "method", member.name,
                                       answer if is_property else signature_of(member, True), ast.get_docstring(member) or "",
                                       member.lineno))
    return found


class Package:
    """One package's names; `read` answers the text of a file of the tree, or None."""

    def __init__(self, folder, read):
        self.folder, self.name, self.read = folder, folder.removeprefix("python/").replace("/", "."), read
        self.trees = {}
        tree = self.tree("__init__")
        self.imported, self.aliases, self.all = {}, {}, []
        for node in tree.body:
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("peal"):
                for name in node.names:
                    home = node.module.removeprefix(self.name).lstrip(".")
                    self.imported[name.asname or name.name] = home or name.name
            if isinstance(node, ast.Assign):
                self.take_aliases(node)

    def take_aliases(self, node):
        """__all__, and names of operations: put = torch.ops.peal.put, alone or several in a row."""
        target = node.targets[0]
        if isinstance(target, ast.Name) and target.id == "__all__":
            self.all = ast.literal_eval(node.value)
            return
        pairs = zip(target.elts, node.value.elts) if isinstance(target, ast.Tuple) else [(target, node.value)]
        for name, value in pairs:
            if isinstance(name, ast.Name) and isinstance(value, ast.Attribute):
                self.aliases[name.id] = value.attr

    def tree(self, module):
        if module not in self.trees:
            text = self.read(f"{self.folder}/{module}.py")
            self.trees[module] = ast.parse(text) if text is not None else None
        return self.trees[module]

    def found(self, name):
        """(module, Entry) of a name of __all__."""
        if name in self.aliases:
            module, sought = "_ops", self.aliases[name]
        else:
            module, sought = self.imported.get(name, "__init__"), name
        for node in self.tree(module).body if self.tree(module) else ():
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name == sought:
                return module, entry_of(node)
            if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == sought and isinstance(node.value, ast.Name):
                return module, Entry("function", name, "(...)", f"Another name of {node.value.id}().", node.lineno)
        raise LookupError(f"{self.folder}/__init__.py: nothing defines {name}")

    def sections(self):
        """{module: [Entry]}, the entries as they stand in the file."""
        by_module = {}
        for name in self.all:
            module, entry = self.found(name)
            by_module.setdefault(module, []).append(entry)
        unknown = by_module.keys() - SECTIONS[self.folder].keys()
        if unknown:
            raise LookupError(f"tools/site/python_calls.py: no section for {self.folder}/{sorted(unknown)[0]}.py")
        return {module: sorted(by_module[module], key=lambda e: e.line) for module in SECTIONS[self.folder] if module in by_module}

    def untold(self):
        for entries in self.sections().values():
            for entry in entries:
                yield from (f"{self.name}.{e}" for e in [entry.name] * (not entry.text) +
                            [f"{entry.name}.{m.name}" for m in entry.members if not m.text])


def prose(text, indent=""):
    """A docstring: paragraphs, and what is indented in it as it stands."""
    lines, code = [], False
    for line in [*inspect.cleandoc(text).splitlines(), ""]:
        if line.startswith("    ") or (line.strip() and line.count("  ") and "[" in line):
            lines += [] if code else ["", ".. code-block:: none", ""]
            code = True
            lines.append("   " + line.removeprefix("    "))
        else:
            lines += [""] if code and line else []
            code = code and not line
            lines.append(reference.inline(line) if line else "")
    return "\n".join(indent + line if line else "" for line in lines).rstrip() + "\n"


def entry_lines(entry, depth=0):
    indent = "   " * depth
    option = [f"{indent}   :type: {entry.signature[2:]}"] if entry.kind == "attribute" and entry.signature else []
    shown = entry.name + ("" if entry.kind == "attribute" else entry.signature)
    lines = [f"{indent}.. py:{entry.kind}:: {shown}", *option, ""]
    if entry.text:
        lines += [prose(entry.text, indent + "   ")]
    for member in entry.members:
        lines += entry_lines(member, depth + 1)
    return lines


def what_it_does(text):
    """The first sentence, with what it says behind "Collective:"."""
    flat = " ".join(text.split())
    word, colon, rest = flat.partition(": ")
    return f"{word}: {reference.first_sentence(rest)}" if colon and word.isalpha() else reference.first_sentence(flat)


def page(title, package):
    sections = package.sections()
    of_page = ast.get_docstring(package.tree("__init__")) or ""
    lines = [title, "=" * len(title), "", f"``import {package.name}``", "", prose(of_page), "", f".. py:currentmodule:: {package.name}", "",
             ".. list-table::", "   :widths: 30 70", "   :class: summary", ""]
    for entries in sections.values():
        for entry in entries:
            role = "class" if entry.kind == "class" else "func"
            lines += [f"   * - :py:{role}:`{entry.name} <{package.name}.{entry.name}>`",
                      f"     - {reference.inline(what_it_does(entry.text))}"]
    lines.append("")
    for module, entries in sections.items():
        heading, told = SECTIONS[package.folder][module]
        lines += [heading, "-" * len(heading), ""]
        if told and ast.get_docstring(package.tree(module)):
            lines += [prose(ast.get_docstring(package.tree(module))), ""]
        for entry in entries:
            lines += entry_lines(entry)
    return "\n".join(lines) + "\n"


def write(root, titles, out):
    """titles: {package's __init__.py: title of its page}. Writes below `out`; answers how many names there are, and which
    have no docstring."""
    def read(path):
        return (root / path).read_text() if (root / path).is_file() else None

    names, untold = 0, []
    for file, title in titles.items():
        package = Package(str(pathlib.PurePath(file).parent), read)
        target = out / f"{package.folder}.rst"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(page(title, package))
        names += len(package.all)
        untold += package.untold()
    return names, untold
