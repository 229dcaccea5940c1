# SPDX-License-Identifier: Apache-2.0
"""Symmetric arrays: one on every PE, of one shape and dtype, that the others can reach."""
from __future__ import annotations

import math
import operator
from typing import Any, Sequence

import numpy as np

from peal import _job
from peal._library import FUNCTIONS, must
from peal._memory import Memory
from peal.errors import ArgumentError, Error

Shape = int | Sequence[int]


class Array:
    """This PE's part of a symmetric array: C-contiguous, in this PE's memory.

    numpy and others take it without a copy (`np.from_dlpack(a)`, `torch.from_dlpack(a)`, `a.numpy()`); indexing reads
    and writes it as numpy does, and what it answers (`a[2:4]`) is an array of numpy's in the same memory, which calls
    take wherever they take an Array. It may be dropped in any order on any PE: the memory is given back by the next
    allocation, or collect(), after all PEs have dropped it. After finalize() it raises Error."""

    def __init__(self, memory: Memory, shape: tuple[int, ...], dtype: np.dtype, pe: _job.Pe):
        self._memory, self._pe = memory, pe
        self.shape, self.dtype = shape, dtype
        self.size = math.prod(shape)
        self.nbytes = self.size * dtype.itemsize
        self.address = memory.address

    ndim = property(lambda self: len(self.shape))
    itemsize = property(lambda self: self.dtype.itemsize)

    def _require(self, call):
        if _job.current(call) is not self._pe:
            raise Error(f"peal.{call}: the array is of a part in a job that has ended; make it anew after peal.init()")

    def numpy(self) -> np.ndarray:
        """This PE's part as an array of numpy's, without a copy."""
        self._require("Array")
        return self._of(self.address)

    def at(self, pe: int) -> np.ndarray | None:
        """The part of another PE, to be read and written directly; None where only a NIC reaches it.

        What is read and written so is ordered by nothing but barrier() and signals. Raises ArgumentError for no PE."""
        self._require("at")
        if not 0 <= operator.index(pe) < self._pe.n_pes:
            raise ArgumentError(f"peal.at: there is no PE {pe}; PEs are 0 to {self._pe.n_pes - 1}")
        address = self._pe.caller.directly(_pointer, "at", self.address, pe)
        return None if address is None else self._of(address)

    def _of(self, address):
        return np.asarray(self._memory.at(address))[:self.nbytes].view(self.dtype).reshape(self.shape)

    def __dlpack__(self, **how: Any):
        return self.numpy().__dlpack__(**{name: value for name, value in how.items() if value is not None})

    def __dlpack_device__(self):
        return (1, 0)  # a CPU

    def __array__(self, dtype=None, copy=None):
        view = self.numpy()
        if dtype is not None and np.dtype(dtype) != self.dtype:
            if copy is False:
                raise ValueError(f"a peal.Array of {self.dtype} is no array of {np.dtype(dtype)} without a copy")
            return view.astype(dtype)
        return view.copy() if copy else view

    def __getitem__(self, index):
        return self.numpy()[index]

    def __setitem__(self, index, value):
        self.numpy()[index] = value

    def __len__(self):
        if not self.shape:
            raise TypeError("len() of a peal.Array without dimensions")
        return self.shape[0]

    def __repr__(self):
        ended = "" if _job._pe is self._pe else ", its job has ended"
        return f"peal.Array(shape={self.shape}, dtype={self.dtype}{ended})"


def _pointer(_, address, pe):
    return FUNCTIONS["ptr"](address, pe)


def _make(call: str, shape: Shape, dtype: Any, zeroed: bool) -> Array:
    pe = _job.current(call)
    try:
        sizes = tuple(operator.index(n) for n in shape) if isinstance(shape, (tuple, list)) else (operator.index(shape),)
    except TypeError:
        raise ArgumentError(f"peal.{call}: shape {shape!r}: give a number of elements, or a tuple of numbers") from None
    if any(n < 0 for n in sizes):
        raise ArgumentError(f"peal.{call}: shape {sizes}: no dimension is less than 0")
    try:
        kind = np.dtype(dtype)
    except TypeError:
        raise ArgumentError(f"peal.{call}: dtype {dtype!r}: give one of numpy's, such as np.float32") from None
    if kind.hasobject:
        raise ArgumentError(f"peal.{call}: dtype {kind}: Python's objects cannot be shared; give one of plain values")
    nbytes = math.prod(sizes) * kind.itemsize
    return Array(pe.heap.allocate(call, nbytes, f"{kind.str if kind.names is None else kind.descr} {sizes}", zeroed),
                 sizes, kind, pe)


def empty(shape: Shape, dtype: Any = np.float64) -> Array:
    """A symmetric array of `shape` with undefined values. Collective: all PEs give the same shape and dtype.

    Raises ArgumentError on all PEs where they differ, Error where memory is used up (PEAL_HEAP_SIZE,
    PEAL_HEAP_LIMIT)."""
    return _make("empty", shape, dtype, zeroed=False)


def zeros(shape: Shape, dtype: Any = np.float64) -> Array:
    """As empty(), filled with 0."""
    return _make("zeros", shape, dtype, zeroed=True)


def full(shape: Shape, fill_value: Any, dtype: Any = None) -> Array:
    """As empty(), filled with `fill_value`, which each PE chooses for itself. Without `dtype` it is the value's."""
    made = _make("full", shape, np.asarray(fill_value).dtype if dtype is None else dtype, zeroed=False)
    made[...] = fill_value
    made._pe.caller.run(must, "full", "barrier")  # before others put into it
    return made
