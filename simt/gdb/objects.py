# SPDX-License-Identifier: Apache-2.0
"""gdb commands for programs that use peal (docs/gdb.md). This file, lanes.py and commands.py, in this order, are one
script: a section of the program (embed.sh).

Here: objects of the process, which tells itself where their fields are (base/debug_list.h), so that it may be stripped.
Nothing is written to the process: cores do as well."""
import gdb


def fail(text):
    raise gdb.GdbError("peal: " + text)


def read(address, size):
    return bytes(gdb.selected_inferior().read_memory(address, size))


def number(data):
    return int.from_bytes(data, "little")


def word(address):
    return number(read(address, 8))


def text(address):
    data = b""
    while b"\0" not in data:
        data += read(address + len(data), 1)
    return data[:-1].decode()


def rows(address):
    """The (name, word, word) entries of a table that a null name ends."""
    found = []
    while word(address) != 0:
        found.append((text(word(address)), word(address + 8), word(address + 16)))
        address += 24
    return found


class Object:
    """A struct of the process by the table of its fields."""

    def __init__(self, kind, data):
        self.fields, self.data = kind[1], data

    def bytes(self, name):
        offset, size = self.fields[name]
        return self.data[offset:offset + size]

    def __getitem__(self, name):
        return number(self.bytes(name))

    def dim(self, name):
        data = self.bytes(name)
        return tuple(number(data[i:i + 4]) for i in (0, 4, 8))


def check_process():
    if not gdb.selected_inferior().threads():
        fail("no process: run the program first, or attach to one")


class Listed:
    """A DebugList: its types by name, and its objects' addresses, the oldest first."""

    def __init__(self, symbol):
        check_process()
        try:
            self.address = int(gdb.parse_and_eval(f"(unsigned long)&{symbol}"))
        except gdb.error:
            fail(f"no {symbol} in this program: nothing of peal is linked or loaded yet")
        self.types = {}
        for name, size, fields in rows(word(self.address)):
            self.types[name] = (size, {n: (a, b) for n, a, b in rows(fields)})
        self.objects, item = [], word(self.address + 8)
        while item != 0 and len(self.objects) < 1 << 20:
            self.objects.insert(0, word(item))
            item = word(item + 8)

    def object(self, kind, address):
        return Object(self.types[kind], read(address, self.types[kind][0]))

    def name(self, kind, value):
        """Of a number."""
        return next((n for n, (at, _) in self.types[kind][1].items() if at == value), f"{kind} {value}")
