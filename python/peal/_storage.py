# SPDX-License-Identifier: Apache-2.0
"""Files into and out of symmetric arrays (docs/storage.md). Peers leave the memory alone meanwhile.

All are done on return, on a GPU behind what the current stream was given before."""
from __future__ import annotations

import os
from typing import Any

from peal import _arguments as arguments
from peal._job import current

Path = str | os.PathLike


def load(path: Path, array: Any, offset: int = 0) -> None:
    """Fills `array` with the file's bytes from byte `offset` on. Raises Error where the file ends before; `array` is as
    it was then."""
    found = arguments.buffer("load", "array", array, written=True)
    where = arguments.number("load", "offset", offset, 0, (1 << 64) - 1)
    current("load").make_now("load", "load", os.fsencode(path), where, found.address, found.nbytes)


def save(path: Path, array: Any) -> None:
    """Makes `path` a file of the bytes of `array`, on the disk on return. Where it fails, what was there stays."""
    found = arguments.buffer("save", "array", array)
    current("save").make_now("save", "save", os.fsencode(path), found.address, found.nbytes)


def save_checkpoint(path: Path, array: Any) -> None:
    """Collective: one file with checksums of the `array` of all PEs. What fails on one PE raises on all."""
    found = arguments.buffer("save_checkpoint", "array", array)
    current("save_checkpoint").make_now("save_checkpoint", "save_checkpoint", os.fsencode(path), found.address, found.nbytes)


def load_checkpoint(path: Path, array: Any) -> None:
    """Collective: the same file into `array`, on as many PEs as saved it."""
    found = arguments.buffer("load_checkpoint", "array", array, written=True)
    current("load_checkpoint").make_now("load_checkpoint", "load_checkpoint", os.fsencode(path), found.address, found.nbytes)
