# SPDX-License-Identifier: Apache-2.0
"""Compiles the sources of kernels, once for a machine and user, and keeps what came out.

    ~/.cache/peal/kernels/HASH-COMPILER/   source.cu     the source, and behind it the table of its kernels
                                           kernels-*.so  of peal-cc; shows the table alone (peal/kernel_table.h)
                                           built.json    its name; what the source includes, with hashes. Written last
                                           lock          held by who looks, compiles or loads: of PEs that start
                                                         together one compiles, and none removes what another loads

HASH is of source, options, compiler's name and this package, COMPILER of what that name stands for: where there is no
compiler any will do. Who compiles is a Toolchain (_toolchains.py, _nvrtc.py,
torch/_extension.py)."""
import contextlib
import dataclasses
import errno
import fcntl
import hashlib
import json
import os
import pathlib
import re
import stat
import tempfile
import time

from peal.errors import Error

_KEPT_S = 24 * 3600  # libraries that are no longer wanted here: a process without the lock may be loading one
# Options that mean the same in every folder.
_ANYWHERE = re.compile(r"-(O\w*|g\w*|[DU].+|[fmW][\w+-]*(=\w+)?|std=.+|l.+|[IL]/.+)|/.+", re.S)


class NotLoadable(Error):
    """A library that is no library of this machine's: half a file, or another machine's."""


@dataclasses.dataclass(frozen=True)
class Source:
    """What is to be compiled. `file` is None for a text of the program's own."""

    text: str
    file: pathlib.Path | None
    entries: tuple[str, ...]  # kernels, in the words of C++
    options: tuple[str, ...]

    def whole(self):
        """The text for the compiler. Its lines are the source's own."""
        if not self.entries:
            return self.text
        entries = ", ".join(f"peal::table::entry<&::{name}>({json.dumps(name)})" for name in self.entries)
        return self.with_behind(f'#include "peal/kernel_table.h"\nPEAL_KERNEL_TABLE({entries})\n')

    def with_behind(self, more):
        """The source, and more behind it."""
        name = str(self.file).replace("\\", r"\\").replace('"', r"\"")
        begin = f'#line 1 "{name}"\n' if self.file else ""
        return f'{begin}{self.text}\n#line 1 "<kernels for Python>"\n{more}'

    def place(self):
        """The folder that options are relative to, where that matters."""
        return "" if all(_ANYWHERE.fullmatch(one) for one in self.options) else os.getcwd()


def _digest(path):
    try:
        return hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()
    except OSError:
        return None


def _places(cache):
    """Where entries may lie, the best place first."""
    if cache:
        return [pathlib.Path(cache)]
    cached, places = os.environ.get("XDG_CACHE_HOME", ""), []
    if not os.path.isabs(cached):
        cached = os.path.expanduser("~/.cache")
    if os.path.isabs(cached):  # else there is neither a HOME nor a user of this number
        places.append(pathlib.Path(cached, "peal/kernels"))
    with contextlib.suppress(OSError):
        places.append(_in_temporary())
    return places


def _in_temporary():
    return pathlib.Path(tempfile.gettempdir(), f"peal-{os.geteuid()}")


def _require_own(call, place, folder):
    """Refuses what others than this user, or root, may have written: it is loaded."""
    for part in place, folder:
        found = part.lstat() if part == _in_temporary() else part.stat()  # all may put a link there
        if stat.S_ISLNK(found.st_mode) or found.st_uid not in (0, os.geteuid()) or found.st_mode & 0o022:
            raise Error(f"{call}: others may write to {part}, from which compiled code is loaded; chmod go-w it, or choose "
                        "another folder by cache= or XDG_CACHE_HOME")


def _folder(call, place, name):
    """The folder of an entry, made where it is not there."""
    folder = place / name
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)
    _require_own(call, place, folder)
    return folder.resolve()


@contextlib.contextmanager
def _locked(folder):
    """Answers whether there is a lock. Without one, as in a folder that is read-only, nothing may be compiled."""
    with contextlib.ExitStack() as held:
        try:
            file = held.enter_context(open(folder / "lock", "w", encoding="utf-8"))
        except OSError:
            yield False
            return
        with contextlib.suppress(OSError):  # a file system without locks: then two may compile, each in its own folder
            fcntl.flock(file, fcntl.LOCK_EX)
        yield True


def _found(folder):
    """The library that lies there, if what it was made of is as it was."""
    try:
        built = json.loads((folder / "built.json").read_text())
        library, included = folder / built["library"], built["included"]
    except (OSError, ValueError, KeyError):  # not there, or another version's
        return None
    return library if library.exists() and all(_digest(path) == one for path, one in included.items()) else None


def _changed_since(began_ns, paths):
    """Whether a file may be another than the compiler read. By the time that no program can set."""
    try:
        return any(os.stat(path).st_ctime_ns >= began_ns for path in paths)
    except OSError:
        return True


def _build(tools, source, folder):
    with tempfile.TemporaryDirectory(prefix="build-", dir=folder) as name:
        new, began_ns = pathlib.Path(name), time.time_ns()
        included = {path: _digest(path) for path in sorted(tools.compile(source, new, new / "kernels.so"))}
        # Another name for other contents: the loader takes one name for one library.
        library = folder / f"kernels-{_digest(new / 'kernels.so')[:8]}.so"
        (folder / "built.json").unlink(missing_ok=True)
        os.replace(new / "kernels.so", library)
        os.replace(new / "source.cu", folder / "source.cu")
        if not _changed_since(began_ns, included):
            (new / "built.json").write_text(json.dumps({"library": library.name, "included": included}))
            os.replace(new / "built.json", folder / "built.json")
    _remove_old(folder, library)
    return library


def _remove_old(folder, current):
    for old in folder.glob("kernels-*.so"):
        with contextlib.suppress(OSError):
            if old != current and old.stat().st_mtime < time.time() - _KEPT_S:
                old.unlink()


def _load_from(folder, tools, source, load):
    """load(library) of what lies in an entry's folder, or is compiled into it. Raises OSError where that cannot be."""
    with _locked(folder) as may_write:
        library = _found(folder)
        if library is not None:
            try:
                return load(library)
            except NotLoadable:
                if not may_write:
                    raise
        if not may_write:
            raise PermissionError(errno.EACCES, "it cannot be written to", str(folder))
        return load(_build(tools, source, folder))


def loaded(tools, source, load, cache=None):
    """load(library) of a Source, which is compiled unless the library is there; no process removes it meanwhile. `load`
    may raise NotLoadable once: then it is compiled anew. `tools`: a Toolchain. Raises
    CompileError with what the compiler says."""
    compiler = tools.compiler()
    told = [source.whole(), str(source.file), *source.options, "", source.place(), *tools.identity()]
    key = hashlib.sha256("\0".join(told).encode(errors="surrogateescape")).hexdigest()[:32]
    problem = "there is no HOME, and no folder for temporary files"
    for place in _places(cache):
        try:
            if compiler is not None:
                return _load_from(_folder(tools.call, place, f"{key}-{compiler}"), tools, source, load)
            for folder in sorted(place.glob(f"{key}-*")):
                _require_own(tools.call, place, folder)
                if (library := _found(folder)) is not None:
                    return load(library)
        except OSError as error:
            problem = f"{place}: {error.strerror}"
    if compiler is None:
        raise tools.no_compiler()
    raise Error(f"{tools.call}: no folder for compiled code: {problem}; set XDG_CACHE_HOME to one that can be written to, or "
                "give kernels one by cache=")
