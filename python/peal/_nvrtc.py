# SPDX-License-Identifier: Apache-2.0
"""NVRTC, CUDA's compiler as a library: kernels for a GPU where no nvcc is, nor g++.

    kernels.so    a line of JSON: {"kernels": {expression: [name in the code, number of its FlatEntry]}}, and the code, an ELF

It comes with CUDA, with torch, or from PyPI: nvidia-cuda-nvrtc, and with nvidia-cuda-cccl and nvidia-cuda-runtime the headers
that it wants. What parameters a kernel has the code tells (peal/nvrtc_table.h)."""
import ctypes
import glob
import hashlib
import json
import os
import pathlib
import re
import struct
import sys

from peal import _build
from peal._kernel_arguments import Parameter
from peal._library import NATIVE
from peal._toolchains import Toolchain, stamp
from peal.errors import CompileError, Error

_INCLUDE = NATIVE / "include/peal"
_OPTIONS = ("--std=c++20", "-default-device", "-device-int128", "-lineinfo", f"-I{_INCLUDE}/device/nvrtc", f"-I{_INCLUDE}")
_DIRECTIVE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^>"\n]+)[>"]', re.M)
_VERSION = 1  # of peal/nvrtc_table.h
_FREE_SHARED = 48 << 10  # bytes of dynamic shared memory that need no permission
_MAX_DYNAMIC_SHARED = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES


def _roots():
    """Folders that CUDA, or its packages of PyPI, may be in."""
    home = os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH")
    packages = [root for path in sys.path if path for root in glob.glob(os.path.join(path, "nvidia/*"))]
    return [*([home] if home else []), *sorted(packages), "/usr/local/cuda"]


def _headers():
    """-I options of libcu++ and of CUDA's own headers; None where the first is missing."""
    folders = [os.path.join(root, "include") for root in _roots()]
    cccl = next((os.path.join(one, part) for one in folders for part in ("cccl", "")
                 if os.path.exists(os.path.join(one, part, "cuda/std/cstdint"))), None)
    cuda = next((one for one in folders if os.path.exists(os.path.join(one, "cuda_fp16.h"))), None)
    return None if cccl is None else [f"-I{one}" for one in (cccl, cuda) if one is not None]


def _library():
    """libnvrtc; None where there is none. NVRTC names another."""
    named = os.environ.get("NVRTC")
    found = [named] if named else [path for root in _roots() for path in sorted(glob.glob(f"{root}/lib*/libnvrtc.so.1?"), reverse=True)]
    for path in [*found, *([] if named else ["libnvrtc.so.13", "libnvrtc.so.12"])]:
        try:
            return ctypes.CDLL(path)
        except OSError:
            continue
    return None


def is_there():
    """Whether there is an NVRTC with all that it needs."""
    return (_INCLUDE / "peal/nvrtc_table.h").exists() and _headers() is not None and _library() is not None


def _included(text, folders, seen):
    """Files that a text may include, as far as its directives tell, but for the package's own and CUDA's."""
    for name in _DIRECTIVE.findall(text):
        for folder in folders:
            path = os.path.abspath(os.path.join(folder, name))
            if os.path.isfile(path):
                if path not in seen:
                    seen.add(path)
                    _included(pathlib.Path(path).read_text(errors="replace"), [os.path.dirname(path), *folders], seen)
                break
    return seen


class ForGpuByNvrtc(Toolchain):
    """NVRTC, for GPUs of one compute capability, such as "90"."""

    def __init__(self, capability):
        self._capability, self._nvrtc = capability, _library()

    def identity(self):
        """Changes with what a compilation depends on beside source, options and compiler."""
        paths = NATIVE / "lib/libpeal.so.0", _INCLUDE / "peal/nvrtc_table.h"
        return ["nvrtc", self._capability, *_OPTIONS, *(_headers() or ()), *map(stamp, paths)]

    def compiler(self):
        """Which one it is, in a word; None where there is none."""
        if self._nvrtc is None or _headers() is None:
            return None
        numbers = ctypes.c_int(), ctypes.c_int()
        self._nvrtc.nvrtcVersion(*map(ctypes.byref, numbers))
        return hashlib.sha256(f"nvrtc {numbers[0].value}.{numbers[1].value}".encode()).hexdigest()[:8]

    def no_compiler(self):
        missing = "libnvrtc" if self._nvrtc is None else "libcu++ for NVRTC"
        return CompileError(f"peal.kernel: there is no {missing} on this machine; pip install nvidia-cuda-nvrtc nvidia-cuda-cccl "
                            "nvidia-cuda-runtime, or install CUDA 12 or newer")

    def compile(self, source, folder, out):
        """Makes the file `out`; answers the files that were included. Raises CompileError."""
        entries = "".join(f"PEAL_NVRTC_ENTRY({number}, ::{name})\n" for number, name in enumerate(source.entries))
        place = str(source.file or "<source>")
        text = source.with_behind('#include "peal/nvrtc_table.h"\n' + entries)
        (folder / "source.cu").write_text(text, encoding="utf-8", errors="surrogateescape")
        near = [str(source.file.parent)] if source.file else []
        program = _Program(self._nvrtc, text.encode(errors="surrogateescape"), place)
        with program:
            for number, name in enumerate(source.entries):
                program.name(f"&::{name}")
                program.name(f"&peal_kernel_{number}")  # which is left out else
            program.compile([f"--gpu-architecture=sm_{self._capability}", *_OPTIONS, *(_headers() or ()), *(f"-I{one}" for one in near),
                             *source.options], source.file or "the source")
            kernels = {name: [program.lowered(f"&::{name}"), number] for number, name in enumerate(source.entries)}
            out.write_bytes(json.dumps({"kernels": kernels}).encode() + b"\n" + program.code())
        given = [one[2:] for one in source.options if one.startswith("-I")]
        return _included(source.text, [*near, *given], set())


class _Program:
    """nvrtcProgram"""

    def __init__(self, nvrtc, text, place):
        self._nvrtc, self._handle = nvrtc, ctypes.c_void_p()
        nvrtc.nvrtcGetErrorString.restype = ctypes.c_char_p
        self._must("nvrtcCreateProgram", ctypes.byref(self._handle), text, place.encode(errors="surrogateescape"), 0, None, None)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._nvrtc.nvrtcDestroyProgram(ctypes.byref(self._handle))

    def _must(self, name, *arguments):
        result = getattr(self._nvrtc, name)(*arguments)
        if result != 0:
            raise CompileError(f"peal.kernel: {name}: {self._nvrtc.nvrtcGetErrorString(result).decode(errors='replace')}")

    def name(self, expression):
        self._must("nvrtcAddNameExpression", self._handle, expression.encode())

    def lowered(self, expression):
        found = ctypes.c_char_p()
        self._must("nvrtcGetLoweredName", self._handle, expression.encode(), ctypes.byref(found))
        return found.value.decode()

    def compile(self, options, what):
        given = (ctypes.c_char_p * len(options))(*(one.encode(errors="surrogateescape") for one in options))
        if self._nvrtc.nvrtcCompileProgram(self._handle, len(options), given) != 0:
            told = self._read("nvrtcGetProgramLog").rstrip(b"\0").decode(errors="replace").strip()
            raise CompileError(f"peal.kernel: {what} does not compile:\n{told}")

    def code(self):
        return self._read("nvrtcGetCUBIN")

    def _read(self, name):
        size = ctypes.c_size_t()
        self._must(name + "Size", self._handle, ctypes.byref(size))
        made = ctypes.create_string_buffer(size.value)
        self._must(name, self._handle, made)
        return made.raw


class _FlatParameter(ctypes.Structure):
    """A FlatParameter, by the names of Parameter's."""

    _fields_ = [("kind", ctypes.c_uint32), ("passing", ctypes.c_uint32), ("bytes", ctypes.c_uint32), ("alignment", ctypes.c_uint32),
                ("type", ctypes.c_char * 240)]


def _bytes_of(code, name):
    """What a variable of an ELF is initialised with; None where it has no such variable."""
    (sections_at,), (size, count, _) = struct.unpack_from("<Q", code, 40), struct.unpack_from("<HHH", code, 58)
    sections = [struct.unpack_from("<IIQQQQIIQQ", code, sections_at + i * size) for i in range(count)]
    for _, kind, _, _, at, length, link, _, _, entry in sections:
        if kind != 2:  # SHT_SYMTAB
            continue
        strings = sections[link][4]
        for symbol in range(at, at + length, entry):
            text, _, _, section, value, nbytes = struct.unpack_from("<IBBHQQ", code, symbol)
            begin = strings + text
            if 0 < section < count and code[begin:code.index(b"\0", begin)] == name.encode():
                return code[sections[section][4] + value:][:nbytes]
    return None


class Compiled:
    """A kernel in a file of ForGpuByNvrtc's. Its code is loaded at the first launch, on the GPU of the job of then."""

    def __init__(self, path, found, expression):
        try:
            told, _, self._code = path.read_bytes().partition(b"\n")
            self._name, number = json.loads(told)["kernels"][expression]
            flat = _bytes_of(self._code, f"peal_kernel_{number}")
            version, context_version, count = struct.unpack_from("<IIQ", flat)
        except (ValueError, KeyError, TypeError, struct.error) as error:
            raise _build.NotLoadable(f"peal.kernel: {path}: {error}; remove it") from None
        if version != _VERSION:
            raise Error(f"peal.kernel: {path} has entries of version {version}, not {_VERSION}; remove it")
        names = found.parameters if len(found.parameters) == count else [f"argument {i + 1}" for i in range(count)]
        natives = (_FlatParameter * count).from_buffer_copy(flat, 16)
        self.parameters = [Parameter(native, name, context_version) for native, name in zip(natives, names)]
        self._functions = {}  # by GPU

    def launched(self, extents, packed, stream, device):
        """What could not be done, in a sentence; "" where all was."""
        blocks, threads, shared = extents
        try:
            function = self._function(device)
            if shared > _FREE_SHARED:
                device.call("cuFuncSetAttribute", function, _MAX_DYNAMIC_SHARED, shared)
            device.call("cuLaunchKernel", function, *blocks, *threads, shared, stream, ctypes.addressof(packed.pointers), None)
        except Error as error:
            return f"kernel launch failed: {error}"
        return ""

    def _function(self, device):
        if device.index not in self._functions:
            module, function = ctypes.c_void_p(), ctypes.c_void_p()
            device.call("cuModuleLoadData", ctypes.addressof(module), self._code)
            device.call("cuModuleGetFunction", ctypes.addressof(function), module, self._name.encode())
            self._functions[device.index] = function
        return self._functions[device.index]
