# SPDX-License-Identifier: Apache-2.0
"""Arguments of kernels: values of Python's as the bytes that a parameter wants."""
import ctypes
import numbers
import re
import struct

import numpy as np

from peal import _arguments as arguments
from peal._array import Array
from peal._job import current
from peal._library import must
from peal._team import Team
from peal.errors import ArgumentError

# As peal/kernel_table.h counts them.
OTHER, VOID, BOOL, SIGNED, UNSIGNED, REAL, CONTEXT, TEAM = range(8)
VALUE, POINTER, CONST_POINTER = range(3)
_WORDS = {BOOL: "bool", SIGNED: "int", UNSIGNED: "uint", REAL: "float"}
_KINDS = {SIGNED: "i", UNSIGNED: "u", REAL: "f", BOOL: "b"}


def still(call, pe):
    """Raises where `pe` is no longer this process': for calls that are inside, so that it stays as they found it."""
    if current(call) is not pe:
        raise ArgumentError(f"peal.{call}: the job has ended, and another begun, beside this call; call it with what is the "
                            "new one's")


def _must_of(pe, call, name, *arguments):
    pe.caller.run_short(_of_that_pe, call, pe, name, *arguments)


def _of_that_pe(call, pe, name, *arguments):
    still(call, pe)
    must(call, name, *arguments)


class Context:
    """What a kernel calls peal with: an argument for its parameter of type peal::Context."""

    def __init__(self, pe):
        self._pe = pe

    def __repr__(self):
        return f"peal.Context(PE {self._pe.my_pe} of {self._pe.n_pes})"


def context() -> Context:
    """The default context of this PE, for kernels: k[1, 32](peal.context(), array)."""
    return Context(current("context"))


class Parameter:
    """One parameter of a kernel, and what becomes its argument."""

    def __init__(self, native, name, context_version):
        self.kind, self.passing, self.nbytes, self.alignment = native.kind, native.passing, native.bytes, native.alignment
        self.name, self._version = name, context_version
        found = re.search(r"\bT = (.*?)\s*(?:;|\]$)", native.type.decode())
        self.type = found[1] if found else "?"

    def __str__(self):
        return f"{self.type} {self.name}"

    def _refuse(self, call, value, wanted):
        given = f"a {type(value).__name__}" if not isinstance(value, (int, float, str)) else repr(value)
        raise ArgumentError(f"peal.{call}: {self.name} is {given}; {self.type} wants {wanted}")

    def bytes_of(self, call, value):
        """The argument's bytes, and what has to stay as long as the kernel runs."""
        if self.passing != VALUE:
            return self._address(call, value)
        if self.kind in (CONTEXT, TEAM):
            return self._of_peal(call, value), value
        if self.kind in (SIGNED, UNSIGNED, BOOL):
            return self._whole(call, value), None
        if self.kind == REAL:
            return self._real(call, value), None
        return self._plain(call, value), None

    def _address(self, call, value):
        if value is None:
            return bytes(8), None
        if not isinstance(value, (Array, np.ndarray)) and not hasattr(value, "__dlpack__"):
            self._refuse(call, value, f"{self._elements()}, or None")
        found = arguments.buffer(call, self.name, value, written=self.passing == POINTER)
        if not self._takes(found.dtype):
            self._refuse_dtype(call, found.dtype)
        if found.address % self.alignment:
            raise ArgumentError(f"peal.{call}: {self.name} is at {found.address:#x}, which is no multiple of {self.alignment}: "
                                f"{self.type} wants that")
        return found.address.to_bytes(8, "little"), found.owner

    def _elements(self):
        if self.kind == VOID:
            return "an array"
        word = _WORDS.get(self.kind)
        if word is None:
            return f"an array with elements of {self.nbytes} bytes, or of bytes (uint8)"
        return f"an array of {word if self.kind == BOOL else f'{word}{8 * self.nbytes}'}"

    def _takes(self, dtype):
        if self.kind == VOID:
            return True
        if self.kind in _KINDS:
            words = self.nbytes in (1, 8) and self.kind in (SIGNED, UNSIGNED) and dtype.kind in "iu"  # bytes; signals: torch's are signed
            same = dtype.kind == _KINDS[self.kind] or words
            return same and dtype.itemsize == self.nbytes and dtype.isnative
        half = {"half": "float16", "bfloat16": "bfloat16"}.get(re.sub(r".*?(b?float16|half|bfloat16)\W*$", r"\1", self.type))
        return dtype == np.uint8 or dtype.name == half or (dtype.itemsize == self.nbytes and dtype.kind in "Vc")

    def _refuse_dtype(self, call, dtype):
        raise ArgumentError(f"peal.{call}: {self.name} has dtype {dtype}; {self.type} wants {self._elements()}")

    def _of_peal(self, call, value):
        place, pe = ctypes.create_string_buffer(self.nbytes), current(call)
        if self.kind == CONTEXT:
            if not isinstance(value, Context):
                self._refuse(call, value, "peal.context()")
            if value._pe is not pe:
                raise ArgumentError(f"peal.{call}: {self.name} is a context of a job that has ended; call peal.context() anew")
            _must_of(pe, call, "context", place, self.nbytes, self._version)
        else:
            if not isinstance(value, Team):
                self._refuse(call, value, "a peal.Team, as peal.world() answers it")
            _must_of(pe, call, "team_value", value._native(call), place, self.nbytes)
        return place.raw

    def _whole(self, call, value):
        if self.kind == BOOL:
            if not isinstance(value, (bool, np.bool_)):
                self._refuse(call, value, "True or False")
            return bytes([bool(value)])
        if isinstance(value, (np.ndarray, Array)) or not hasattr(value, "__index__"):
            self._refuse(call, value, "a whole number")
        bits = 8 * self.nbytes
        low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if self.kind == SIGNED else (0, (1 << bits) - 1)
        given = value.__index__()
        if not low <= given <= high:
            raise ArgumentError(f"peal.{call}: {self.name} is {given}; {self.type} takes {low} to {high}")
        return (given & (1 << bits) - 1).to_bytes(self.nbytes, "little")

    def _real(self, call, value):
        if isinstance(value, bool) or not isinstance(value, (numbers.Real, np.floating)):
            self._refuse(call, value, "a number")
        try:
            return struct.pack("=f" if self.nbytes == 4 else "=d", float(value))
        except OverflowError:
            raise ArgumentError(f"peal.{call}: {self.name} is {value!r}, which is too large for {self.type}") from None

    def _plain(self, call, value):
        """A struct: of ctypes', a value of a structured dtype, or bytes."""
        if isinstance(value, np.void):
            given = value.tobytes()
        elif isinstance(value, (ctypes.Structure, ctypes.Array, bytes, bytearray)):
            given = bytes(value)
        else:
            self._refuse(call, value, f"a ctypes.Structure, a value of a structured dtype or bytes, {self.nbytes} of them")
        if len(given) != self.nbytes:
            raise ArgumentError(f"peal.{call}: {self.name} has {len(given)} bytes; {self.type} has {self.nbytes}")
        return given


class Packed:
    """Arguments where a launch finds them: `pointers` is a list of their addresses. `owners`: what they point at."""

    _ALIGNMENT = 64

    def __init__(self, call, parameters, values):
        made = [parameter.bytes_of(call, value) for parameter, value in zip(parameters, values)]
        self.owners = [owner for _, owner in made]
        places, end = [], 0
        for (data, _), parameter in zip(made, parameters):
            places.append(-(-end // self._ALIGNMENT) * self._ALIGNMENT)
            end = places[-1] + max(len(data), parameter.nbytes)
        self._room = ctypes.create_string_buffer(end + self._ALIGNMENT)
        begin = -(-ctypes.addressof(self._room) // self._ALIGNMENT) * self._ALIGNMENT
        self.pointers = (ctypes.c_void_p * (len(made) or 1))(*(begin + place for place in places))
        for (data, _), place in zip(made, places):
            ctypes.memmove(begin + place, data, len(data))
