# SPDX-License-Identifier: Apache-2.0
"""Blocks that travel around a ring of PEs, such as K and V of ring attention, while this PE computes with those it has.

    ring = peal.torch.Ring(kv.shape, kv.dtype)
    for step in range(ring.size):
        coming = ring.shift(kv) if step + 1 < ring.size else None    # to the next PE, beside the computation
        accumulate(q, kv)
        kv = coming.wait() if coming else None                       # what the PE before had

The gradient goes the other way around, and all members make the same shifts there too: where gradients are wanted every
member's loss depends on every block that came. Causal attention, which leaves blocks out, adds 0 * block.sum()."""
from __future__ import annotations

from typing import Any, Sequence

import torch
from torch import Tensor

from peal import _operations
from peal._job import current
from peal.errors import ArgumentError
from peal.torch import _groups
from peal.torch._tensors import empty, zeros


class Ring:
    """Symmetric memory by which each member of `group` gives a tensor to the next: two blocks of `shape` for each direction.
    Collective among all PEs: of groups of some each makes one for its own.

    Members wait for one another by signals alone, which count: a block is put once the receiver has copied out what the
    block had before."""

    def __init__(self, shape: Sequence[int], dtype: torch.dtype, group: Any = None):
        found = _groups.of("Ring", group)
        self.shape, self.dtype, self.size = torch.Size(shape), dtype, found.size
        self._next, self._before = found.pes[(found.rank + 1) % found.size], found.pes[(found.rank - 1) % found.size]
        self._ways = [_Way(self, forth) for forth in (True, False)]
        self._device = self._ways[0].inbox.device
        self._stream = torch.cuda.Stream(self._device) if self._device.type == "cuda" else None

    def shift(self, block: Tensor) -> Pending:
        """Gives `block` to the next member, beside what the current stream is given from now on. Collective; so is its
        backward, in the order of the shifts. One shift is under way at a time: wait() before the next."""
        if block.shape != self.shape or block.dtype != self.dtype or block.device != self._device:
            raise ArgumentError(f"peal.torch.Ring.shift: a block of shape {tuple(block.shape)}, {block.dtype}, on {block.device}; this "
                                f"ring has {tuple(self.shape)}, {self.dtype}, on {self._device}")
        return Pending(self, _Shift.apply(block, self))

    def _begin(self, block, forth):
        way = self._ways[0 if forth else 1]
        if self._stream is None:
            return way.move(block)
        self._stream.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(self._stream):
            came = way.move(block)
        block.record_stream(self._stream)
        return came

    def _end(self, came):
        if self._stream is not None:
            torch.cuda.current_stream(self._device).wait_stream(self._stream)
            came.record_stream(torch.cuda.current_stream(self._device))


class Pending:
    """A shift that is under way."""

    def __init__(self, ring, came):
        self._ring, self._came = ring, came

    def wait(self) -> Tensor:
        """The block of the member before, for what the current stream is given from now on."""
        self._ring._end(self._came)
        return self._came


class _Way:
    """One direction around the ring: where blocks come in and go out, and who may."""

    def __init__(self, ring, forth):
        self._to, self._from = (ring._next, ring._before) if forth else (ring._before, ring._next)
        self.inbox, self._outbox = empty(ring.shape, dtype=ring.dtype), empty(ring.shape, dtype=ring.dtype)
        words = zeros(2, dtype=torch.int64)
        self._arrived, self._free = words[0:1], words[1:2]
        self._me = current("Ring").my_pe
        _operations.atomic_set(self._free, 1, self._me)
        _operations.barrier()

    def move(self, block):
        """Gives a block away, and answers a copy of the one that came."""
        self._outbox.copy_(block)
        self._take(self._free)
        _operations.put_signal(self.inbox, self._outbox, self._to, self._arrived, 1, "add")
        self._take(self._arrived)
        came = self.inbox.clone()
        _operations.signal(self._free, 1, self._from, "add")
        _operations.quiet()  # the outbox is free
        return came

    def _take(self, word):
        _operations.signal_wait(word, 1, ">=")
        _operations.atomic_add(word, -1, self._me)
        _operations.quiet()  # before the next wait looks


class _Shift(torch.autograd.Function):
    @staticmethod
    def forward(context, block, ring):
        context.ring = ring
        return ring._begin(block, forth=True)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(context, gradient):
        came = context.ring._begin(gradient.contiguous(), forth=False)
        context.ring._end(came)
        return came, None
