# SPDX-License-Identifier: Apache-2.0
"""Symmetric memory that is set aside for tensors, of which arena.h gives out parts."""
from peal import _job
from peal._array import empty
from peal._job import current
from peal.errors import ArgumentError
from peal.torch import _extension


def reserve(nbytes: int) -> None:
    """Collective: sets `nbytes` of each PE's symmetric memory aside for symm_mem.empty(), which is not collective then. May
    be called again for more. Without it the first symm_mem.empty() is, for 1 GiB of a GPU or 64 MiB of a CPU."""
    if not isinstance(nbytes, int) or nbytes <= 0:
        raise ArgumentError(f"peal.torch.reserve: nbytes {nbytes!r}: give a number of bytes")
    module, array = _extension.module(), empty(nbytes, "uint8")
    current("reserve").kept.setdefault(("arenas",), []).append(array)  # as long as the job
    module.add(array.address, nbytes)


def watch(module):
    """Tells the compiled module of jobs, of one that is under way too."""
    def told(pe):
        if pe is None:
            module.end()
        else:
            module.begin(pe.device.index if pe.device.is_gpu else -1, pe.device.context if pe.device.is_gpu else 0)
    _job.watch(told)
