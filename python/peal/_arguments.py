# SPDX-License-Identifier: Apache-2.0
"""Arguments of calls: what they may be, and the errors for what they may not."""
import operator

import numpy as np

from peal._array import Array
from peal._library import TYPES
from peal.errors import ArgumentError


class Buffer:
    """Where an argument's elements lie. `owner` keeps them there."""

    __slots__ = ("address", "dtype", "nbytes", "owner", "size")

    def __init__(self, address, dtype, size, nbytes, owner):
        self.address, self.dtype, self.size, self.nbytes, self.owner = address, dtype, size, nbytes, owner


def buffer(call, name, value, written=False):
    """The Buffer of an Array, or of what numpy takes without a copy: its own arrays, tensors of a CPU by DLPack."""
    if isinstance(value, Array):
        value._require(call)
        return Buffer(value.address, value.dtype, value.size, value.nbytes, value)
    if isinstance(value, np.ndarray):
        array = value
    elif hasattr(value, "__dlpack__"):
        try:
            array = np.from_dlpack(value)
        except (BufferError, RuntimeError, TypeError, ValueError) as error:
            raise ArgumentError(f"peal.{call}: {name}: {error}; give a tensor of a CPU that needs no gradient") from None
    else:
        raise ArgumentError(f"peal.{call}: {name} is a {type(value).__name__}; give a peal.Array, an array of numpy's or a "
                            "tensor with __dlpack__")
    if not array.flags.c_contiguous:
        raise ArgumentError(f"peal.{call}: {name} of shape {array.shape} has strides {array.strides}: not contiguous; give "
                            "a contiguous part, or put its rows one by one")
    if written and not array.flags.writeable and isinstance(value, np.ndarray):
        raise ArgumentError(f"peal.{call}: {name} is read-only; give an array that may be written")
    return Buffer(array.ctypes.data, array.dtype, array.size, array.nbytes, array)


def type_of(call, name, dtype):
    """peal_type_t of a dtype, for calls that compute."""
    found = TYPES.get(dtype.name)
    if found is None or not dtype.isnative:
        raise ArgumentError(f"peal.{call}: {name} has dtype {dtype}; this call takes {', '.join(TYPES)}, in native order")
    return found


def require_alike(call, dst, src, times_dst=1, times_src=1):
    """dst has `times_dst` elements where src has `times_src`, of one dtype."""
    if dst.dtype != src.dtype:
        raise ArgumentError(f"peal.{call}: dst has dtype {dst.dtype}, src {src.dtype}; give both the same")
    if dst.size * times_src != src.size * times_dst:
        wanted = src.size * times_dst / times_src
        raise ArgumentError(f"peal.{call}: dst has {dst.size} elements, src {src.size}; this call wants {wanted:g} in dst")


def chosen(call, name, value, table):
    """The number of one of the words in `table`."""
    found = table.get(value) if isinstance(value, str) else None
    if found is None:
        raise ArgumentError(f"peal.{call}: {name} {value!r}: give one of {', '.join(map(repr, table))}")
    return found


def number(call, name, value):
    """A value as an int of Python's."""
    try:
        return operator.index(value)
    except TypeError:
        raise ArgumentError(f"peal.{call}: {name} {value!r}: give a whole number") from None


def word(call, name, value):
    """A Buffer of one integer of 4 or 8 bytes."""
    found = buffer(call, name, value)
    if found.size != 1 or found.dtype.kind not in "iu" or found.dtype.itemsize not in (4, 8):
        raise ArgumentError(f"peal.{call}: {name} has {found.size} elements of {found.dtype}; give one integer of 4 or 8 "
                            "bytes, such as array[3:4]")
    return found


def bits(call, found, value):
    """`value` as the bits of a word; ArgumentError where it does not fit."""
    given, width = number(call, "value", value), 8 * found.dtype.itemsize
    low, high = (-(1 << width - 1), (1 << width - 1) - 1) if found.dtype.kind == "i" else (0, (1 << width) - 1)
    if not low <= given <= high:
        raise ArgumentError(f"peal.{call}: value {given} does not fit {found.dtype}; give {low} to {high}")
    return given & (1 << width) - 1


def of_bits(found, raw):
    """The number that a word's bits are."""
    width = 8 * found.dtype.itemsize
    return raw - (1 << width) if found.dtype.kind == "i" and raw >> (width - 1) else raw
