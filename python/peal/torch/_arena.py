# SPDX-License-Identifier: Apache-2.0
"""Symmetric memory that this PE gives out and takes back by itself, without a collective call.

The arena is one array of every PE. Where its blocks lie differs from PE to PE; who wants to reach another PE's allocation asks
for its offset (rendezvous). So a block may be made and dropped at any time: by torch's allocator, by the collector."""
import bisect
import collections
import threading

from peal import _stream
from peal._array import empty
from peal._job import current
from peal.errors import ArgumentError, Error

_ALIGNMENT = 512  # of torch's CUDA allocator
_DEFAULT_BYTES = {True: 1 << 30, False: 64 << 20}  # whether on a GPU


class Allocation:
    """Memory of an arena, given back when nothing refers to it."""

    def __init__(self, arena, offset, nbytes, room):
        self.arena, self.offset, self.nbytes, self.room = arena, offset, nbytes, room  # what was asked for; what it takes
        self.address = arena.base + offset

    def __del__(self):
        self.arena.dropped.append((self.offset, self.room))  # the collector may call from within any line


class Arena:
    """Allocations of one symmetric array, first fit."""

    def __init__(self, number, nbytes):
        self.number, self.nbytes = number, nbytes  # numbers are the same on all PEs
        self.array = empty(nbytes, "uint8")
        self.base = self.array.address
        self._free = [(0, nbytes)]  # (offset, bytes) by offset
        self._lock = threading.Lock()
        self.dropped = collections.deque()  # (offset, bytes) of Allocations, which take() gives back

    def take(self, nbytes):
        """An Allocation, or None where there is no room."""
        wanted = max(_ALIGNMENT, -(-nbytes // _ALIGNMENT) * _ALIGNMENT)
        with self._lock:
            self._give_back_dropped()
            for i, (offset, size) in enumerate(self._free):
                if size >= wanted:
                    self._free[i:i + 1] = [(offset + wanted, size - wanted)] if size > wanted else []
                    return Allocation(self, offset, nbytes, wanted)
        return None

    def _give_back_dropped(self):
        device = current("empty").device
        if not self.dropped or _stream.is_capturing(device):
            return
        count = len(self.dropped)
        device.settle()  # streams may have been given work on them
        for _ in range(count):
            self._give_back(*self.dropped.popleft())

    def _give_back(self, begin, size):
        i, end = bisect.bisect(self._free, (begin,)), begin + size
        if i < len(self._free) and self._free[i][0] == end:
            end += self._free.pop(i)[1]
        if i > 0 and sum(self._free[i - 1]) == begin:
            begin = self._free.pop(i - 1)[0]
            i -= 1
        self._free.insert(i, (begin, end - begin))

    def at(self, offset, pe):
        """Where a PE's byte at `offset` is mapped here; None where only a NIC reaches it."""
        return current("rendezvous").pointer("rendezvous", self.base + offset, pe)


def all_of(call):
    """The Arenas of this PE's part in the job."""
    return current(call).kept.setdefault(("arenas",), [])


def reserve(nbytes: int) -> None:
    """Collective: sets `nbytes` of each PE's symmetric memory aside for symm_mem.empty(), which is not collective then. May
    be called again for more. Without it the first symm_mem.empty() is, for 1 GiB of a GPU or 64 MiB of a CPU."""
    if not isinstance(nbytes, int) or nbytes <= 0:
        raise ArgumentError(f"peal.torch.reserve: nbytes {nbytes!r}: give a number of bytes")
    arenas = all_of("reserve")
    arenas.append(Arena(len(arenas), nbytes))


def take(nbytes):
    """An Allocation of any arena. Raises Error where none has room."""
    arenas = all_of("empty")
    if not arenas:
        reserve(_DEFAULT_BYTES[current("empty").device.is_gpu])
    for arena in arenas:
        block = arena.take(nbytes)
        if block is not None:
            return block
    raise Error(f"peal.torch: no room for {nbytes} bytes in {sum(arena.nbytes for arena in arenas)} of symmetric memory set aside; "
                "call peal.torch.reserve() with more on all PEs, before, or drop tensors")
