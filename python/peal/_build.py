# SPDX-License-Identifier: Apache-2.0
"""Compiles the sources of kernels, once for a machine and user, and keeps what came out.

    ~/.cache/peal/kernels/HASH/   source.cu     the source, and behind it the table of its kernels (peal/kernel_table.h)
                                  kernels-*.so  of peal-cc
                                  built.json    its name; the files that the source includes, with hashes. Written last
                                  lock          held by who looks or compiles: of PEs that start together one compiles

HASH is of source, options, compiler's name and this package. What kernels run on is one class, of which CPUs have the
only one so far."""
import contextlib
import dataclasses
import fcntl
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import warnings

from peal._library import NATIVE
from peal.errors import CompileError, Error

TEXT_NAME = "<source>"  # what errors call a source that is no file


@dataclasses.dataclass(frozen=True)
class Source:
    """What is to be compiled. `file` is None for a text of the program's own."""

    text: str
    file: pathlib.Path | None
    entries: tuple[str, ...]  # kernels, in the words of C++
    options: tuple[str, ...]

    def whole(self):
        """The text for the compiler. Its lines are the source's own."""
        entries = ", ".join(f"peal::table::entry<&::{name}>({json.dumps(name)})" for name in self.entries)
        begin = f'#line 1 "{self.file}"\n' if self.file else ""
        return f'{begin}{self.text}\n#line 1 "<kernels for Python>"\n#include "peal/kernel_table.h"\nPEAL_KERNEL_TABLE({entries})\n'


class CpuToolchain:
    """peal-cc, which calls g++: kernels of CPUs."""

    _PROGRAM = NATIVE / "bin/peal-cc"
    _OPTIONS = ("-shared", "-fPIC")  # no -fno-gnu-unique: threadIdx and its like are one with libpeal's by such symbols

    def identity(self):
        """Changes with what a compilation depends on beside source and options."""
        parts = [self._compiler(), *self._OPTIONS]
        for path in self._PROGRAM, NATIVE / "lib/libpeal.so.0", NATIVE / "include/peal/peal/kernel_table.h":
            if not path.exists():
                raise Error(f"peal.kernel: this installation of the package has no {path.name}; it comes as a wheel "
                            "(tools/package wheel)")
            parts.append(f"{path.stat().st_size} {path.stat().st_mtime_ns}")
        return parts

    def _compiler(self):
        return os.environ.get("CXX") or "g++"

    def compile(self, source, folder, out):
        """Makes the library `out`; answers the files that were included. Raises CompileError."""
        if shutil.which(self._compiler()) is None:
            raise CompileError(f"peal.kernel: there is no compiler {self._compiler()!r} on this machine, and this kernel has "
                               "not been compiled before; install g++ 12 or newer (apt install g++), or name one by CXX")
        if "clang" in self._compiler():
            raise CompileError(f"peal.kernel: CXX={self._compiler()}: a library of clang's has a threadIdx of its own; name g++")
        text = folder / "source.cu"
        text.write_text(source.whole())
        included = folder / "included.d"
        near = ["-iquote", str(source.file.parent)] if source.file else []
        command = [self._PROGRAM, *self._OPTIONS, *near, *source.options, "-MMD", "-MF", included, text, "-o", out]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
        told = done.stderr.replace(str(text), TEXT_NAME).strip()
        if done.returncode != 0:
            raise CompileError(f"peal.kernel: {source.file or 'the source'} does not compile:\n{told}")
        if told:
            warnings.warn(f"peal.kernel: {source.file or 'the source'}:\n{told}", stacklevel=2)
        return {os.path.abspath(name) for name in _names_in_rule(included.read_text())} - {str(text)}


def toolchain():
    """Who compiles for where this process' kernels run."""
    target = os.environ.get("PEAL_TARGET", "cpu")
    if target != "cpu":
        raise Error(f"peal.kernel: PEAL_TARGET={target}: this version compiles kernels for CPUs alone, and leaves none on a "
                    "CPU that was meant for a GPU; set it to cpu")
    return CpuToolchain()


def _names_in_rule(text):
    """What a rule of make depends on."""
    words = re.findall(r"(?:\\.|[^\s\\])+", text.replace("\\\n", " ").partition(":")[2])
    return {re.sub(r"\\(.)", r"\1", word).replace("$$", "$") for word in words}


def _digest(path):
    try:
        return hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()
    except OSError:
        return None


def _default_cache():
    base = os.environ.get("XDG_CACHE_HOME")
    return pathlib.Path(base if base and os.path.isabs(base) else os.path.expanduser("~/.cache")) / "peal/kernels"


def _folder(cache, key):
    """The folder of an entry, which this user alone writes: what lies there is loaded."""
    places = [pathlib.Path(cache)] if cache else [_default_cache(), pathlib.Path(tempfile.gettempdir(), f"peal-{os.geteuid()}")]
    for place in places:
        folder = place / key
        try:
            place.mkdir(mode=0o700, parents=True, exist_ok=True)
            folder.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            problem = error
            continue
        for part in place, folder:
            owner = part.stat()
            if owner.st_uid != os.geteuid() or owner.st_mode & 0o022:
                raise Error(f"peal.kernel: others may write to {part}, from which compiled kernels are loaded; chmod go-w it, "
                            "or give cache= another folder")
        return folder.resolve()
    raise Error(f"peal.kernel: no folder for compiled kernels: {problem}; give cache= a folder, or set XDG_CACHE_HOME")


@contextlib.contextmanager
def _locked(folder):
    with open(folder / "lock", "w", encoding="utf-8") as file:
        with contextlib.suppress(OSError):  # a file system without locks: then two may compile, each in its own folder
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _found(folder):
    """The library that lies there, if what it was made of is as it was."""
    try:
        built = json.loads((folder / "built.json").read_text())
        library, included = folder / built["library"], built["included"]
    except (OSError, ValueError, KeyError):  # not there, or another version's
        return None
    return library if library.exists() and all(_digest(path) == one for path, one in included.items()) else None


def _build(tools, source, folder):
    with tempfile.TemporaryDirectory(prefix="build-", dir=folder) as name:
        new = pathlib.Path(name)
        included = {path: _digest(path) for path in sorted(tools.compile(source, new, new / "kernels.so"))}
        # Another name for other contents: the loader takes one name for one library.
        library = folder / f"kernels-{hashlib.sha256(json.dumps(included).encode()).hexdigest()[:8]}.so"
        (new / "built.json").write_text(json.dumps({"library": library.name, "included": included}))
        (folder / "built.json").unlink(missing_ok=True)
        for old in folder.glob("kernels-*.so"):
            old.unlink(missing_ok=True)
        os.replace(new / "kernels.so", library)
        for file in "source.cu", "built.json":
            os.replace(new / file, folder / file)
    return library


def built(source, cache=None):
    """The library of a Source, compiled unless it is there. Raises CompileError with what the compiler says."""
    tools = toolchain()
    told = [source.whole(), str(source.file), *source.options, "", *tools.identity()]
    key = hashlib.sha256("\0".join(told).encode(errors="surrogateescape")).hexdigest()[:32]
    folder = _folder(cache, key)
    with _locked(folder):
        return _found(folder) or _build(tools, source, folder)
