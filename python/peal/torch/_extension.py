# SPDX-License-Identifier: Apache-2.0
"""Compiles symmetric_memory.cpp against the torch that is imported, once for that version of it, and keeps it."""
import functools
import hashlib
import importlib.util
import pathlib
import shutil
import subprocess
import sys
import sysconfig

import torch

from peal import _build, _toolchains
from peal.errors import CompileError

_FOLDER = pathlib.Path(__file__).parent
_SOURCE = _FOLDER / "symmetric_memory.cpp"
_INCLUDED = _FOLDER / "arena.h"
_MODULE = "peal_symmetric_memory"
_OPTIONS = ("-shared", "-fPIC", "-O1", "-std=c++20", "-w")


class _Toolchain(_toolchains.Toolchain):
    """g++ with torch's headers."""

    call = "peal.torch"

    def identity(self):
        return [torch.__version__, torch.__file__, sys.version, *_OPTIONS]

    def compiler(self):
        """Which one it is, in a word; None where there is none. torch's headers want the one that torch was made with: g++."""
        found = shutil.which("g++")
        if found is None:
            return None
        told = subprocess.run([found, "--version"], capture_output=True, text=True, errors="replace", check=False).stdout
        return hashlib.sha256(told.encode()).hexdigest()[:8]

    def no_compiler(self):
        return CompileError("peal.torch: there is no g++ on this machine, and the backend PEAL has not been compiled for torch "
                            f"{torch.__version__} before; install g++ 12 or newer (apt install g++)")

    def compile(self, source, folder, out):
        """Makes the module `out`. Raises CompileError."""
        text, torchs = folder / "source.cu", pathlib.Path(torch.__file__).parent
        text.write_text(source.whole())
        paths = torchs / "include", torchs / "include/torch/csrc/api/include", sysconfig.get_paths()["include"]
        command = ["g++", *_OPTIONS, f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}",
                   f"-I{_FOLDER}", *(f"-isystem{path}" for path in paths), "-x", "c++", text, "-o", out,
                   f"-L{torchs / 'lib'}", "-Wl,--no-as-needed", "-lc10", "-ltorch_cpu", "-ltorch_python"]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
        if done.returncode != 0:
            raise CompileError(f"peal.torch: the backend PEAL does not compile against torch {torch.__version__}:\n"
                               f"{done.stderr.strip()}")
        return {str(_INCLUDED)}


def _load(library):
    spec = importlib.util.spec_from_file_location(_MODULE, library)
    try:
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    except ImportError as error:
        raise _build.NotLoadable(f"peal.torch: {error}") from None
    return module


@functools.cache
def module():
    """The compiled module. Raises CompileError."""
    return _build.loaded(_Toolchain(), _build.Source(_SOURCE.read_text(), _SOURCE, (), ()), _load)
