# SPDX-License-Identifier: Apache-2.0
"""Kernels: C++ with CUDA's syntax, as a string or a file, compiled at first use and launched from Python, on a CPU or a
GPU."""
from __future__ import annotations

import ctypes
import operator
import pathlib
import threading
from typing import Any, Sequence

from peal import _build, _kernel_source, _stream, _toolchains
from peal._device import named
from peal._job import current
from peal._kernel_arguments import Packed, Parameter, still
from peal._library import failure_of_check
from peal.errors import ArgumentError, CompileError, Error

_VERSION = 2  # of peal/kernel_table.h
_ROOM = 4096  # for a sentence
_MOST_THREADS = 1024  # of a block, CUDA's limit
_STREAM_LEGACY = 1  # cudaStreamLegacy: CUDA's default stream, which is 0 elsewhere

Extent = int | Sequence[int]


class _Parameter(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_uint32), ("passing", ctypes.c_uint32), ("bytes", ctypes.c_uint32),
                ("alignment", ctypes.c_uint32), ("type", ctypes.c_char_p)]


class _Start(ctypes.Structure):
    _fields_ = [("blocks", ctypes.c_uint32 * 3), ("threads", ctypes.c_uint32 * 3), ("shared_bytes", ctypes.c_size_t),
                ("arguments", ctypes.c_void_p), ("stream", ctypes.c_void_p), ("error", ctypes.c_char_p), ("error_bytes", ctypes.c_size_t)]


class _Entry(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("parameters", ctypes.POINTER(_Parameter)),
                ("parameter_count", ctypes.c_size_t), ("launch", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(_Start)))]


class _Table(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint32), ("context_version", ctypes.c_uint32), ("entries", ctypes.POINTER(_Entry)),
                ("entry_count", ctypes.c_size_t)]


class Compiled:
    """A kernel in a library that is loaded. Libraries stay loaded: a kernel that was interrupted may yet run."""

    def __init__(self, path, found, expression):
        try:
            self._library = ctypes.CDLL(str(path))
        except OSError as error:
            if "undefined symbol" not in str(error):
                raise _build.NotLoadable(f"peal.kernel: the compiled kernels cannot be loaded: {error}") from None
            raise CompileError(f"peal.kernel: {error}: the source names a function or variable that it does not define; "
                               "define it, or give options what to link") from None
        self._library.peal_kernel_table.restype = ctypes.POINTER(_Table)
        table = self._library.peal_kernel_table().contents
        if table.version != _VERSION:
            raise Error(f"peal.kernel: {path} has a table of version {table.version}, not {_VERSION}; remove it")
        self.entry = next(one for one in table.entries[:table.entry_count] if one.name == expression.encode())
        count = self.entry.parameter_count
        names = found.parameters if len(found.parameters) == count else [f"argument {i + 1}" for i in range(count)]
        self.parameters = [Parameter(native, name, table.context_version)
                           for native, name in zip(self.entry.parameters[:count], names)]

    def launched(self, extents, packed, stream, _):
        """What could not be done, in a sentence; "" where all was."""
        told = ctypes.create_string_buffer(_ROOM)
        start = _Start(*extents, ctypes.addressof(packed.pointers), stream, ctypes.addressof(told), _ROOM)
        return told.value.decode(errors="replace") if self.entry.launch(ctypes.byref(start)) else ""


class Kernel:
    """A kernel, as kernel() answers it. `k[grid, block](...)`, `k[grid, block, shared](...)` and, on a GPU, `k[grid, block,
    shared, stream](...)` launch it.

    On a CPU they return when it has ended on this PE, and raise what went wrong in it. On a GPU it runs in the order of
    `stream`, or of the current one, graphs may capture it, and check() and synchronize() raise that."""

    def __init__(self, source, found, expression, cache):
        self.name = expression
        self._source, self._found, self._cache = source, found, cache
        self._compiled = {}  # by what it runs on: a program may have a job on a CPU and the next on a GPU
        self._lock = threading.Lock()

    def compile(self) -> Kernel:
        """Compiles and loads it, if that has not been done; the first launch does it otherwise. Needs no init()."""
        self._for_here()
        return self

    def _for_here(self):
        place = _toolchains.where()
        with self._lock:
            if place not in self._compiled:
                tools, kind = _toolchains.of(place)
                self._compiled[place] = _build.loaded(tools, self._source, lambda path: kind(path, self._found, self.name), self._cache)
            return self._compiled[place]

    def __getitem__(self, where):
        parts = where if isinstance(where, tuple) else (where,)
        if len(parts) not in (2, 3, 4):
            raise ArgumentError(f"peal.kernel({self.name}): [{where!r}]: give [grid, block], [grid, block, shared] or [grid, block, "
                                "shared, stream]")
        return lambda *args: self.launch(*parts[:2], args, *parts[2:])

    def launch(self, grid: Extent = 1, block: Extent = 1, args: Sequence[Any] = (), shared: int = 0, stream: Any = None) -> None:
        """Launches `grid` blocks of `block` threads, each a number or up to three, with `shared` bytes of dynamic shared
        memory a block.

        Arguments are, by the parameter's type: of T* an Array, a part of one, or an array of numpy's of that dtype; of
        numbers an int, float or bool that fits; of peal::Context context(); of peal::Team a Team; of a struct one of
        ctypes' or numpy's, or bytes. None is a null pointer. Raises ArgumentError for others, naming the parameter, and
        Error for what the kernel ran into; Ctrl-C ends the wait, not the kernel. On a GPU what arguments point at has to
        stay until the stream is done with it: Arrays do, and torch's tensors in the current stream; with another `stream`
        call their record_stream()."""
        call = f"kernel({self.name})"
        pe = current(call)
        if not pe.device.is_gpu:
            _stream.require_none(call, stream)
        blocks, threads = _extent(call, "grid", grid), _extent(call, "block", block)
        if threads[0] * threads[1] * threads[2] > _MOST_THREADS:
            raise ArgumentError(f"peal.{call}: block {block!r}: a block has {_MOST_THREADS} threads at most")
        if not isinstance(shared, int) or not 0 <= shared < 1 << 32:
            raise ArgumentError(f"peal.{call}: shared {shared!r}: give a number of bytes")
        compiled = self._for_here()
        wanted = compiled.parameters
        if len(args) != len(wanted):
            raise ArgumentError(f"peal.{call}: {len(args)} given, {len(wanted)} wanted: ({', '.join(map(str, wanted))})")
        packed = Packed(call, wanted, args)
        if pe.device.is_gpu:  # in this thread, which may be capturing a graph
            queue = _stream.handle(call, pe.device, stream) or _STREAM_LEGACY
            pe.caller.directly(_start, call, pe, compiled, (blocks, threads, shared), packed, queue)
        else:
            pe.caller.run(_run, call, pe, compiled, (blocks, threads, shared), packed)

    def __repr__(self):
        compiled = next(iter(self._compiled.values()), None)
        known = compiled and ", ".join(map(str, compiled.parameters))
        return f"peal.Kernel({self.name}({'...' if known is None else known}))"


def _run(call, pe, compiled, extents, packed):
    """On a CPU: returns when the kernel has ended."""
    still(call, pe)
    failed = compiled.launched(extents, packed, None, pe.device)
    problem = failure_of_check(call)  # a call of peal's in the kernel: the cause, where both are there
    if problem is not None:
        raise problem
    if failed:
        raise Error(f"peal.{call}: {failed}")


def _start(call, pe, compiled, extents, packed, stream):
    """On a GPU: the kernel runs behind what the stream was given before."""
    still(call, pe)
    with named(call), pe.device.selected():
        failed = compiled.launched(extents, packed, stream, pe.device)
    if failed:
        raise Error(f"peal.{call}: {failed}")


def _extent(call, name, given):
    try:
        numbers = [operator.index(n) for n in (given if isinstance(given, (tuple, list)) else (given,))]
    except TypeError:
        numbers = []
    if not 1 <= len(numbers) <= 3 or not all(1 <= n < 1 << 31 for n in numbers):
        raise ArgumentError(f"peal.{call}: {name} {given!r}: give a number of 1 or more, or up to three of them")
    return tuple(numbers + [1] * (3 - len(numbers)))


def kernel(source: str | pathlib.Path, name: str | None = None, *, options: Sequence[str] = (),
           cache: str | pathlib.Path | None = None) -> Kernel:
    """A kernel out of `source`: a pathlib.Path, or a text. `name`: which one, where there are several; of a template with
    its arguments, "scale<float>".

    It is C++20 with CUDA's syntax and peal's device API, as peal-cc takes it (docs/cpu_programs.md), or on a GPU nvcc, and
    where that is not NVRTC; g++, or one of these, has to be on the machine. It is compiled at first use and kept in `cache` (~/.cache/peal/kernels), where each
    PE of a job and later programs find it. `options` are the compiler's: "-O0", "-g", "-DNAME", "-I/folder". Not
    collective.

    Raises ArgumentError where there is no such kernel; compile(), and the first launch, raise CompileError."""
    if isinstance(source, pathlib.PurePath):
        file = pathlib.Path(source).absolute()
        try:
            text = file.read_text(encoding="utf-8", errors="surrogateescape")
        except OSError as error:
            raise ArgumentError(f"peal.kernel: source {file}: {error.strerror}") from None
    elif isinstance(source, str):
        if "{" not in source:
            raise ArgumentError(f"peal.kernel: source {source[:80]!r} has no kernel in it; a file is given as a pathlib.Path")
        file, text = None, source
    else:
        raise ArgumentError(f"peal.kernel: source is a {type(source).__name__}; give a text or a pathlib.Path")
    if isinstance(options, str) or not all(isinstance(one, str) for one in options):
        raise ArgumentError(f"peal.kernel: options {options!r}: give a list of words")
    found = _kernel_source.kernels(text)
    which, expression = _kernel_source.chosen(found, name)
    entries = dict.fromkeys([*_kernel_source.offered(found), expression])
    return Kernel(_build.Source(text, file, tuple(entries), tuple(options)), which, expression, cache)
