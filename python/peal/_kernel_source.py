# SPDX-License-Identifier: Apache-2.0
"""Which kernels a source has, as far as its text tells: for names in calls and in errors. What their parameters are the
compiler says (peal/kernel_table.h)."""
import dataclasses
import re

from peal.errors import ArgumentError

_TOKEN = re.compile(r"""
    //[^\n]* | /\*.*?\*/                                              # comments
  | ^[ \t]*\#(?:\\\n|[^\n])*                                          # a directive
  | R"(?P<mark>[^()\\\s]{0,16})\(.*?\)(?P=mark)" | "(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])*'
  | \d[\w'.]* | \w+ | :: | \S""", re.S | re.M | re.X)
_TYPES = {"bool", "char", "const", "double", "float", "int", "long", "short", "signed", "unsigned", "volatile"}
_OPEN, _CLOSE = "([{", ")]}"


@dataclasses.dataclass
class Found:
    """A kernel's definition. `optional`: the preprocessor, or who instantiates it, decides whether it is there."""

    name: str  # with namespaces: a::k
    parameters: list[str]
    is_template: bool
    optional: bool


class _Scanner:
    def __init__(self, text):
        self.tokens, self.conditions = [], []  # how many #if are around a token
        depth = 0
        for match in _TOKEN.finditer(text):
            token = match[0].lstrip()
            if token.startswith("#"):
                depth += 1 if re.match(r"#\s*if", token) else -1 if re.match(r"#\s*endif", token) else 0
            elif not token.startswith(("//", "/*")):
                self.tokens.append(token)
                self.conditions.append(depth)

    def at(self, i):
        return self.tokens[i] if i < len(self.tokens) else ""

    def behind(self, i):
        """Behind the bracket that closes the one at `i`."""
        depth = 0
        while i < len(self.tokens):
            depth += (self.tokens[i] in _OPEN) - (self.tokens[i] in _CLOSE)
            i += 1
            if depth <= 0:
                break
        return i

    def kernels(self):
        scopes, statement, i = [], 0, 0  # the names of namespaces; None: what no kernel lies in
        while i < len(self.tokens):
            token = self.tokens[i]
            if token == "{":
                scopes.append(self._namespace(statement, i))
            elif token == "}" and scopes:
                scopes.pop()
            elif token in ("__global__", "PEAL_KERNEL") and None not in scopes:
                found, i = self._kernel(scopes, statement, i)
                if found:
                    yield found
                statement = i
                continue
            i += 1
            if token in "{};":
                statement = i

    def _namespace(self, first, brace):
        words = [word for word in self.tokens[first:brace] if word != "inline"]
        if words[:1] == ["namespace"]:
            return "".join(words[1:])  # "" where it has no name
        return "" if words[:1] == ["extern"] and len(words) == 2 else None

    def _kernel(self, scopes, statement, i):
        begin = i
        while self.at(i + 1) not in ("", ";", "{", "}", "="):
            i += 1
            if self.at(i + 1) != "(" or not re.match(r"[A-Za-z_]\w*$", self.at(i)):
                continue
            end = self.behind(i + 1)
            if self.at(i).startswith(("__launch_bounds__", "PEAL_MAX_THREADS", "__attribute__", "__maxnreg__", "alignas")):
                i = end - 1
                continue
            if self.at(end) != "{":
                return None, end
            name = "::".join([*filter(None, scopes), self.at(i)])
            template = "template" in self.tokens[statement:begin]
            return Found(name, self._parameters(i + 2, end - 1), template, template or self.conditions[begin] > 0), end
        return None, i + 1

    def _parameters(self, first, end):
        parts, depth = [[]], 0
        for token in self.tokens[first:end]:
            if token == "," and depth == 0:
                parts.append([])
                continue
            depth += (token in "([{<") - (token in ")]}>")
            parts[-1].append(token)
        return [_name(part, number) for number, part in enumerate(parts) if part not in ([], ["void"])]


def _name(part, number):
    for mark in "=", "[":
        part = part[:part.index(mark)] if mark in part else part
    named = len(part) > 1 and part[-2] != "::" and part[-1] not in _TYPES and re.match(r"[A-Za-z_]\w*$", part[-1])
    return part[-1] if named else f"argument {number + 1}"


def kernels(text):
    """The Found kernels of a source."""
    return list(_Scanner(text).kernels())


def chosen(found, name):
    """The one that `name` means: a kernel's name, with or without its namespaces, of a template with its arguments.
    Answers it, and the expression that names it in C++."""
    names = ", ".join(dict.fromkeys(kernel.name for kernel in found))
    if not found:
        raise ArgumentError("peal.kernel: the source has no kernel: one is PEAL_KERNEL name(...) {...} or "
                            "__global__ void name(...) {...}, outside of functions and classes")
    if name is None:
        if len({kernel.name for kernel in found}) > 1:
            raise ArgumentError(f"peal.kernel: the source has several kernels: name one of {names}")
        name = found[0].name
    base, bracket, arguments = name.partition("<")
    fitting = [kernel for kernel in found if kernel.name == base] or [
        kernel for kernel in found if kernel.name.endswith("::" + base)]
    if len({kernel.name for kernel in fitting}) != 1:
        raise ArgumentError(f"peal.kernel: the source has no kernel {name!r}; it has {names}" if not fitting else
                            f"peal.kernel: {name!r} is the name of several kernels: {names}")
    kernel = fitting[0]
    if kernel.is_template and not bracket:
        raise ArgumentError(f"peal.kernel: {name!r} is a template: give its arguments, too, as in \"{base}<float>\"")
    return kernel, kernel.name + bracket + arguments


def offered(found):
    """Names of kernels that are there whatever is asked for: one compilation is for all of them."""
    names = [kernel.name for kernel in found]
    return [kernel.name for kernel in found if not kernel.optional and names.count(kernel.name) == 1]
