# SPDX-License-Identifier: Apache-2.0
"""Symmetric arrays: one on every PE, of one shape and dtype, that the others can reach."""
from __future__ import annotations

import math
import operator
from typing import Any, Sequence

import numpy as np

from peal import _dlpack, _dtypes, _job, _stream
from peal._device import named
from peal._library import must
from peal._memory import Memory
from peal.errors import ArgumentError, Error

Shape = int | Sequence[int]


class Array:
    """This PE's part of a symmetric array: C-contiguous, in this PE's memory.

    Others take it without a copy: `torch.from_dlpack(a)`, and on a CPU `np.from_dlpack(a)` and `a.numpy()`. A part of it
    (`a[2:4]`) is in the same memory, and calls take it wherever they take an Array: on a CPU an array of numpy's, which
    indexing reads and writes; on a GPU an Array of a contiguous part. It may be dropped in any order on any PE: the memory
    is given back by the next allocation, or collect(), after all PEs have dropped it. After finalize() it raises Error."""

    def __init__(self, memory: Memory, shape: tuple[int, ...], dtype: np.dtype, pe: _job.Pe, address: int | None = None):
        self._memory, self._pe = memory, pe
        self.shape, self.dtype = shape, dtype
        self.size = math.prod(shape)
        self.nbytes = self.size * dtype.itemsize
        self.address = memory.address if address is None else address

    ndim = property(lambda self: len(self.shape))
    itemsize = property(lambda self: self.dtype.itemsize)
    device = property(lambda self: str(self._pe.device), doc="Where it lies: \"cpu\", or \"cuda:0\".")

    def _require(self, call):
        if _job.current(call) is not self._pe:
            raise Error(f"peal.{call}: the array is of a part in a job that has ended; make it anew after peal.init()")

    def _require_cpu(self):
        self._require("Array")
        if self._pe.device.is_gpu:
            raise ArgumentError(f"peal.Array: numpy does not reach the memory of {self.device}; use torch.from_dlpack(a), "
                                "a.copy_to_host() or a.copy_from_host(values)")

    def numpy(self) -> np.ndarray:
        """This PE's part as an array of numpy's, without a copy. Raises ArgumentError on a GPU."""
        self._require_cpu()
        return self._of(self.address)

    def copy_to_host(self) -> np.ndarray:
        """A copy of this PE's part. On a GPU it waits for all that its streams were given."""
        self._require("copy_to_host")
        if self._pe.device.is_gpu:
            _stream.not_capturing("copy_to_host", self._pe.device)
        return np.frombuffer(bytearray(self._pe.caller.run(self._read, "copy_to_host")), self.dtype).reshape(self.shape)

    def _read(self, call):
        with named(call):
            self._pe.device.settle()
            return self._pe.device.read(self.address, self.nbytes)

    def copy_from_host(self, values: Any) -> None:
        """Fills this PE's part with `values`, which numpy broadcasts to its shape. On a GPU it waits for all that its
        streams were given."""
        self._fill("copy_from_host", values)

    def _fill(self, call, values):
        self._require(call)
        on_gpu = self._pe.device.is_gpu
        if on_gpu:
            _stream.not_capturing(call, self._pe.device)
        try:
            made = np.empty(self.shape, self.dtype) if on_gpu else self.numpy()
            made[...] = _dtypes.converted(np.asarray(values), self.dtype)
        except (ValueError, TypeError, OverflowError) as error:
            raise ArgumentError(f"peal.{call}: values for {_dtypes.name_of(self.dtype)} of shape {self.shape}: {error}") from None
        if on_gpu:
            self._pe.caller.run(self._write, call, made.tobytes())

    def _write(self, call, data):
        with named(call):
            self._pe.device.settle()
            self._pe.device.write(self.address, data)

    def at(self, pe: int) -> np.ndarray | Array | None:
        """The part of another PE, to be read and written directly: an array of numpy's, on a GPU an Array. None where only
        a NIC reaches it.

        What is read and written so is ordered by nothing but barrier() and signals. Raises ArgumentError for no PE."""
        self._require("at")
        if not 0 <= operator.index(pe) < self._pe.n_pes:
            raise ArgumentError(f"peal.at: there is no PE {pe}; PEs are 0 to {self._pe.n_pes - 1}")
        address = self._pe.pointer("at", self.address, pe)
        if address is None:
            return None
        if self._pe.device.is_gpu:
            return Array(self._memory, self.shape, self.dtype, self._pe, address)
        return self._of(address)

    def _of(self, address):
        return np.asarray(self._memory.at(address))[:self.nbytes].view(self.dtype).reshape(self.shape)

    def __dlpack__(self, *, copy: bool | None = None, dl_device: tuple[int, int] | None = None, **how: Any):
        if not self._pe.device.is_gpu:
            more = {"copy": copy, "dl_device": dl_device, **how}
            return self.numpy().__dlpack__(**{name: value for name, value in more.items() if value is not None})
        self._require("Array")
        if copy or (dl_device is not None and tuple(dl_device) != self._pe.device.dlpack):
            raise BufferError(f"a peal.Array is shared on {self.device}, without a copy; copy what was shared")
        return _dlpack.export(self._untouched(), self.nbytes, self.shape, self.dtype, self._pe.device.dlpack)

    def _untouched(self):
        """This PE's part as bytes of numpy's, for their address alone."""
        return np.asarray(self._memory.untouched(self.address, self.nbytes))

    def __dlpack_device__(self):
        return self._pe.device.dlpack

    def __array__(self, dtype=None, copy=None):
        view = self.numpy()
        if dtype is not None and np.dtype(dtype) != self.dtype:
            if copy is False:
                raise ValueError(f"a peal.Array of {self.dtype} is no array of {np.dtype(dtype)} without a copy")
            return view.astype(dtype)
        return view.copy() if copy else view

    def __getitem__(self, index):
        return self._part(index) if self._pe.device.is_gpu else self.numpy()[index]

    def _part(self, index):
        """An Array of some of the elements, from numpy's view of a memory that it must not touch."""
        self._require("Array")
        given = index if isinstance(index, tuple) else (index,)
        parts = [one if isinstance(one, slice) or one is Ellipsis else _number(one) for one in given]
        if None in parts:  # numpy would copy the elements
            raise ArgumentError(f"peal.Array: [{index!r}]: on {self.device} give numbers and slices; torch.from_dlpack(a) takes "
                                "the rest")
        if Ellipsis not in parts:
            parts.append(Ellipsis)  # with one it stays an array
        part = self._untouched().view(self.dtype).reshape(self.shape)[tuple(parts)]
        if not part.flags.c_contiguous:
            raise ArgumentError(f"peal.Array: [{index!r}] of shape {self.shape} is not contiguous; take rows, or "
                                "torch.from_dlpack(a)")
        return Array(self._memory, part.shape, self.dtype, self._pe, part.ctypes.data)

    def __setitem__(self, index, value):
        self._require_cpu()
        self.numpy()[index] = value

    def __len__(self):
        if not self.shape:
            raise TypeError("len() of a peal.Array without dimensions")
        return self.shape[0]

    def __repr__(self):
        where = f", device={self.device}" if self._pe.device.is_gpu else ""
        ended = "" if _job._pe is self._pe else ", its job has ended"
        return f"peal.Array(shape={self.shape}, dtype={_dtypes.name_of(self.dtype)}{where}{ended})"


def _number(index):
    """An index as an int of Python's; None for what is none, such as masks."""
    if isinstance(index, (bool, np.bool_)) or hasattr(index, "shape") and not isinstance(index, np.integer):
        return None
    try:
        return operator.index(index)
    except TypeError:
        return None


def _make(call: str, shape: Shape, dtype: Any, zeroed: bool) -> Array:
    pe = _job.current(call)
    try:
        sizes = tuple(operator.index(n) for n in shape) if isinstance(shape, (tuple, list)) else (operator.index(shape),)
    except TypeError:
        raise ArgumentError(f"peal.{call}: shape {shape!r}: give a number of elements, or a tuple of numbers") from None
    if any(n < 0 for n in sizes):
        raise ArgumentError(f"peal.{call}: shape {sizes}: no dimension is less than 0")
    kind = _dtypes.of(call, dtype)
    if kind.hasobject:
        raise ArgumentError(f"peal.{call}: dtype {kind}: Python's objects cannot be shared; give one of plain values")
    nbytes = math.prod(sizes) * kind.itemsize
    return Array(pe.heap.allocate(call, nbytes, f"{kind.str if kind.names is None else kind.descr} {sizes}", zeroed),
                 sizes, kind, pe)


def empty(shape: Shape, dtype: Any = np.float64) -> Array:
    """A symmetric array of `shape` with undefined values. Collective: all PEs give the same shape and dtype, one of
    numpy's or torch's, or "bfloat16". On a GPU it waits for the current stream, and a PE that has dropped arrays for all.

    Raises ArgumentError on all PEs where they differ, Error where memory is used up (PEAL_HEAP_SIZE,
    PEAL_HEAP_LIMIT)."""
    return _make("empty", shape, dtype, zeroed=False)


def zeros(shape: Shape, dtype: Any = np.float64) -> Array:
    """As empty(), filled with 0."""
    return _make("zeros", shape, dtype, zeroed=True)


def full(shape: Shape, fill_value: Any, dtype: Any = None) -> Array:
    """As empty(), filled with `fill_value`, which each PE chooses for itself. Without `dtype` it is the value's."""
    made = _make("full", shape, np.asarray(fill_value).dtype if dtype is None else dtype, zeroed=False)
    made._fill("full", fill_value)
    made._pe.caller.run(must, "full", "barrier")  # before others put into it
    return made
