# SPDX-License-Identifier: Apache-2.0
"""Who compiles kernels for where this process' arrays lie: peal-cc for CPUs, nvcc for GPUs, or NVRTC (_nvrtc.py)."""
import functools
import hashlib
import os
import re
import shutil
import subprocess
import warnings

from peal import _job
from peal._device import named
from peal._library import NATIVE
from peal.errors import CompileError, Error

_TEXT_NAME = "<source>"  # what errors call a source that is no file
# A library shows its table, and shares with libpeal the lanes' variables (simt/lanes/lane.h). All else is its own, also
# where another library has something of that name: g++ makes inline variables one for a whole process else.
_EXPORTS = """{
  global:
    peal_kernel_table;
    extern "C++" {
      "peal::simt::threadIdx"; "peal::simt::blockIdx"; "peal::simt::blockDim"; "peal::simt::gridDim";
    };
  local: *;
};
"""


class Toolchain:
    """A compiler and how it is called. Subclasses say what identity(), compiler(), no_compiler() and command() are."""

    call = "peal.kernel"  # whose errors are raised

    def compile(self, source, folder, out):
        """Makes the library `out`; answers the files that were included. Raises CompileError."""
        text = folder / "source.cu"
        text.write_text(source.whole(), encoding="utf-8", errors="surrogateescape")
        included, exports = folder / "included.d", folder / "exports.map"
        exports.write_text(_EXPORTS)
        command = [*self.command(source, exports), *source.options, "-MMD", "-MF", included, text, "-o", out]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
        told = (done.stderr + done.stdout).replace(str(text), _TEXT_NAME).strip()
        if done.returncode != 0:
            raise CompileError(f"peal.kernel: {source.file or 'the source'} does not compile:\n{told}")
        if told:
            warnings.warn(f"peal.kernel: {source.file or 'the source'}:\n{told}", stacklevel=2)
        return {os.path.abspath(name) for name in _names_in_rule(included.read_text(errors="surrogateescape"))} - {str(text)}


@functools.cache
def _macros(compiler):
    """What a compiler defines, which tells its kind and version. "" where there is none."""
    if compiler is None:
        return ""
    told = subprocess.run([compiler, "-dM", "-E", "-x", "c++", os.devnull], capture_output=True, text=True, errors="replace",
                          check=False)
    if told.returncode != 0:
        raise CompileError(f"peal.kernel: {compiler} -dM -E: {told.stderr.strip() or 'failed'}; name g++ 12 or newer by CXX")
    return told.stdout


def stamp(path):
    """A file of this installation as it is now. Raises Error where it is not there."""
    if not path.exists():
        raise Error(f"peal.kernel: this installation of the package has no {path.name}; it comes as a wheel (tools/package wheel)")
    return f"{path.stat().st_size} {path.stat().st_mtime_ns}"


class ForCpu(Toolchain):
    """peal-cc, which calls g++."""

    _PROGRAM = NATIVE / "bin/peal-cc"
    _OPTIONS = ("-shared", "-fPIC")  # no -fno-gnu-unique: threadIdx and its like are one with libpeal's by such symbols

    def __init__(self):
        self._name = os.environ.get("CXX") or "g++"
        self._macros = _macros(shutil.which(self._name))

    def identity(self):
        """Changes with what a compilation depends on beside source, options and compiler."""
        paths = self._PROGRAM, NATIVE / "lib/libpeal.so.0", NATIVE / "include/peal/peal/kernel_table.h"
        return [self._name, *self._OPTIONS, _EXPORTS, *map(stamp, paths)]

    def compiler(self):
        """Which one it is, in a word. Raises CompileError for one that will not do; None where there is none."""
        if "__clang__" in self._macros:
            raise CompileError(f"peal.kernel: CXX={self._name}: a library of clang's has a threadIdx of its own; name g++")
        return hashlib.sha256(self._macros.encode()).hexdigest()[:8] if self._macros else None

    def no_compiler(self):
        return CompileError(f"peal.kernel: there is no compiler {self._name!r} on this machine, and this kernel has "
                            "not been compiled before; install g++ 12 or newer (apt install g++), or name one by CXX")

    def command(self, source, exports):
        near = ["-iquote", str(source.file.parent)] if source.file else []
        return [self._PROGRAM, *self._OPTIONS, f"-Wl,--version-script={exports}", *near]


class ForGpu(Toolchain):
    """nvcc, for GPUs of one compute capability, such as "90"."""

    _OPTIONS = ("-shared", "-std=c++20", "-Xcompiler=-fPIC", "-lineinfo")

    def __init__(self, capability):
        self._capability = capability
        self._program = os.environ.get("NVCC") or shutil.which("nvcc") or shutil.which("/usr/local/cuda/bin/nvcc")

    def identity(self):
        """As ForCpu's."""
        paths = NATIVE / "lib/libpeal.so.0", NATIVE / "include/peal/peal/kernel_table.h"
        return ["nvcc", self._capability, *self._OPTIONS, _EXPORTS, *map(stamp, paths)]

    def compiler(self):
        """Which one it is, in a word; None where there is none."""
        try:
            told = subprocess.run([self._program, "--version"], capture_output=True, text=True, errors="replace", check=False)
        except (OSError, TypeError):
            return None
        return hashlib.sha256(told.stdout.encode()).hexdigest()[:8] if told.returncode == 0 else None

    def no_compiler(self):
        return CompileError("peal.kernel: there is neither nvcc nor NVRTC on this machine, and this kernel has not been compiled for "
                            f"sm_{self._capability} before; install CUDA 12 or newer, or name its nvcc by NVCC; or pip install "
                            "nvidia-cuda-nvrtc nvidia-cuda-cccl nvidia-cuda-runtime")

    def command(self, source, exports):
        near = ["-I", str(source.file.parent)] if source.file else []
        return [self._program, *self._OPTIONS, f"-arch=sm_{self._capability}", "-I", NATIVE / "include/peal",
                f"-Xlinker=--version-script={exports}", f"-L{NATIVE / 'lib'}", "-l:libpeal.so.0", *near]


def where():
    """What this process' kernels run on: "cpu", or "sm_90"."""
    device = _job.device_or_none()
    if device is not None:
        with named("kernel"):
            return f"sm_{device.capability}" if device.is_gpu else "cpu"
    target = os.environ.get("PEAL_TARGET", "cpu")
    if target != "cpu":
        raise Error(f"peal.kernel: PEAL_TARGET={target}, and which GPU kernels are compiled for is not known before peal.init(); "
                    "call it first")
    return "cpu"


def of(place):
    """(Toolchain, what makes a kernel of its files) for what where() answers. On a GPU NVRTC does where there is no nvcc."""
    from peal import _kernel, _nvrtc
    if place == "cpu":
        return ForCpu(), _kernel.Compiled
    capability = place.removeprefix("sm_")
    tools = ForGpu(capability)
    if tools.compiler() is None and _nvrtc.is_there():
        return _nvrtc.ForGpuByNvrtc(capability), _nvrtc.Compiled
    return tools, _kernel.Compiled


def _names_in_rule(text):
    """What a rule of make depends on."""
    words = re.findall(r"(?:\\.|[^\s\\])+", text.replace("\\\n", " ").partition(":")[2])
    return {re.sub(r"\\(.)", r"\1", word).replace("$$", "$") for word in words}
