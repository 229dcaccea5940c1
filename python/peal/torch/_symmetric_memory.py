# SPDX-License-Identifier: Apache-2.0
"""The backend "PEAL" of torch.distributed._symmetric_memory, on GPUs and on CPUs.

Allocating and freeing are this PE's own affair (arena.h). rendezvous() is collective among the group's members, who tell
one another by the group's store where their blocks lie. Signal pads are of one tensor and one group. They count: put_signal
adds 1 to a word and wait_signal takes 1 away, so pads are zero where all signals have been waited for."""
from __future__ import annotations

import ctypes
import json

from peal._device import named
from peal._job import current
from peal._library import ALLOCATE, ATOMICS, COMPARISONS, TYPES
from peal.errors import ArgumentError, Error
from peal.torch import _extension, _groups

_WORD = 4  # bytes of a pad's words, as torch's kernels have them
_MINUS_ONE = (1 << 8 * _WORD) - 1


def _pad_bytes():
    from torch.distributed import _symmetric_memory  # here: it takes a while to import
    return _symmetric_memory.get_signal_pad_size()


class Handle:
    """Memory and a signal pad of each member of a group. `buffers` and `pads` are their addresses here, 0 where only a NIC
    reaches them; `ranks` are torch's global ranks."""

    def __init__(self, group, pad_bytes, told):
        pe = current("rendezvous")
        self._pe, self._pad_bytes, self._told = pe, pad_bytes, told
        self._bases = [arena.base for arena in _extension.module().arenas()]
        self.nbytes, self.rank, self.device = min(one["nbytes"] for one in told), group.rank, str(pe.device)
        self.pes, self.ranks = list(group.pes), [_groups.ranks_of_pes("rendezvous")[one] for one in group.pes]
        self.buffers = [self._at("memory", rank) for rank in range(group.size)]
        self.pads = [self._at("pad", rank) for rank in range(group.size)]

    def _at(self, what, rank):
        number, offset = self._told[rank][what]
        return self._pe.pointer("rendezvous", self._bases[number] + offset, self.pes[rank]) or 0

    def _word(self, call, owner, sender, channel):
        """How this PE names the word of the pad of `owner` that `sender` signals by, as torch numbers them."""
        at = _WORD * (len(self.pes) * channel + sender)
        if channel < 0 or at + _WORD > self._pad_bytes:
            most = self._pad_bytes // (_WORD * len(self.pes))
            raise ArgumentError(f"SymmetricMemory.{call}: channel {channel}: there are {most} of them; raise "
                                "set_signal_pad_size() before tensors are made")
        number, offset = self._told[owner]["pad"]
        return self._bases[number] + offset + at

    def _require(self, call, rank):
        if current(call) is not self._pe:
            raise Error(f"SymmetricMemory.{call}: the job has ended; make tensors anew after peal.init()")
        if not 0 <= rank < len(self.pes):
            raise ArgumentError(f"SymmetricMemory.{call}: rank {rank}: the group's ranks are 0 to {len(self.pes) - 1}")

    def _add(self, call, owner, sender, channel, value):
        self._pe.make_short(call, "atomic", ATOMICS["add"], self._word(call, owner, sender, channel), value, _WORD, self.pes[owner])

    def _take(self, call, sender, channel):
        word = self._word(call, self.rank, sender, channel)
        self._pe.make(call, "wait_until", word, TYPES["uint32"], COMPARISONS[">="], 1)
        self._add(call, self.rank, sender, channel, _MINUS_ONE)

    def barrier(self, channel, timeout_ms):  # noqa: ARG002  (peal's waits end by PEAL_TIMEOUT)
        """Done, in the order of the current stream, when all members have called it, and what they had put has arrived."""
        call = "barrier"
        self._require(call, 0)
        self._word(call, self.rank, self.rank, channel)  # raises before anything is done
        self._pe.make(call, "quiet")
        others = [rank for rank in range(len(self.pes)) if rank != self.rank]
        for rank in others:
            self._add(call, rank, self.rank, channel, 1)
        for rank in others:
            self._take(call, rank, channel)
        self._pe.make(call, "quiet")  # what was taken is taken before the next wait looks

    def put_signal(self, rank, channel, timeout_ms):  # noqa: ARG002
        """Tells a member that what this PE has put to it before, in the order of the current stream, has arrived."""
        call = "put_signal"
        self._require(call, rank)
        self._pe.make_short(call, "fence")
        self._add(call, rank, self.rank, channel, 1)

    def wait_signal(self, rank, channel, timeout_ms):  # noqa: ARG002
        """The current stream waits for one put_signal() of a member."""
        self._require("wait_signal", rank)
        self._take("wait_signal", rank, channel)
        self._pe.make("wait_signal", "quiet")


def _block_around(address):
    found = _extension.module().around(address)
    if found is None:
        raise ArgumentError("SymmetricMemory.rendezvous: the tensor is not of symm_mem.empty() with the backend PEAL; make it so, in "
                            "this job")
    return found


def rendezvous(address, group_name):
    """(Handle, block, pad) of the memory at an address. Collective among the group's members."""
    group = _groups.of("rendezvous", group_name)
    store, key = _groups.store("rendezvous", group), f"peal/rendezvous/{group.name}/{group.meetings}/"
    group.meetings += 1
    try:
        block, pad = _block_around(address), _extension.module().take(_pad_bytes())
        with named("rendezvous"):
            current("rendezvous").device.write(pad.address, bytes(pad.nbytes))
    except Error as error:  # the others wait for what this PE says
        store.set(key + str(group.rank), json.dumps({"error": str(error)}))
        raise
    within = address - block.address
    mine = {"nbytes": block.nbytes - within, "within": within, "memory": (block.arena.number, block.offset + within),
            "pad": (pad.arena.number, pad.offset)}
    store.set(key + str(group.rank), json.dumps(mine))
    told = [json.loads(store.get(key + str(rank))) for rank in range(group.size)]
    for rank, one in enumerate(told):
        if "error" in one:
            raise Error(f"SymmetricMemory.rendezvous: rank {rank} of group {group.name}: {one['error']}")
        if one["nbytes"] != told[0]["nbytes"] and not any(other["within"] for other in told):
            raise ArgumentError(f"SymmetricMemory.rendezvous: rank 0 of group {group.name} has {told[0]['nbytes']} bytes, rank {rank} "
                                f"has {one['nbytes']}; give tensors of one size, in the same order")
    return Handle(group, pad.nbytes, told), block, pad


def register():
    """Makes torch know the backend. Raises CompileError."""
    _extension.module().register(rendezvous, *(ctypes.cast(function, ctypes.c_void_p).value for function in ALLOCATE))
