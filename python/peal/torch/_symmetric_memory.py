# SPDX-License-Identifier: Apache-2.0
"""The backend "PEAL" of torch.distributed._symmetric_memory, on GPUs and on CPUs.

Allocating and freeing are this PE's own affair (_arena.py). rendezvous() is collective among the group's members, who tell
one another by the group's store where their blocks lie. Signal pads are of one tensor and one group. They count: put_signal
adds 1 to a word and wait_signal takes 1 away, so pads are zero where all signals have been waited for."""
from __future__ import annotations

import collections
import json

from peal._device import named
from peal._job import current
from peal._library import ATOMICS, COMPARISONS, TYPES
from peal.errors import ArgumentError, Error
from peal.torch import _arena, _groups

_WORD = 4  # bytes of a pad's words, as torch's kernels have them
_MINUS_ONE = (1 << 8 * _WORD) - 1


def _pad_bytes():
    from torch.distributed import _symmetric_memory  # here: it takes a while to import
    return _symmetric_memory.get_signal_pad_size()


class Handle:
    """A block and a signal pad of each member of a group. `buffers` and `pads` are their addresses here, 0 where only a NIC
    reaches them."""

    def __init__(self, group, block, pad, told):
        pe = current("rendezvous")
        self._pe, self._block, self._pad = pe, block, pad  # which stay as long
        self._told = told
        self._arenas = _arena.all_of("rendezvous")
        self.nbytes, self.rank, self.pes, self.device = block.nbytes, group.rank, list(group.pes), str(pe.device)
        self.buffers = [self._at("block", rank) for rank in range(group.size)]
        self.pads = [self._at("pad", rank) for rank in range(group.size)]

    def _at(self, what, rank):
        number, offset = self._told[rank][what]
        return self._arenas[number].at(offset, self.pes[rank]) or 0

    def _word(self, call, owner, sender, channel):
        """How this PE names the word of the pad of `owner` that `sender` signals by, as torch numbers them."""
        at = _WORD * (len(self.pes) * channel + sender)
        if channel < 0 or at + _WORD > self._pad.nbytes:
            most = self._pad.nbytes // (_WORD * len(self.pes))
            raise ArgumentError(f"SymmetricMemory.{call}: channel {channel}: there are {most} of them; raise "
                                "set_signal_pad_size() before tensors are made")
        number, offset = self._told[owner]["pad"]
        return self._arenas[number].base + offset + at

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


class Allocator:
    """What symmetric_memory.cpp asks. Blocks are found by address; several groups may meet for one."""

    def __init__(self):
        self._blocks = {}  # address: (Block, Handles by group)
        self._outlived = collections.Counter()  # by address, tensors of jobs that have ended whose place has a new one
        self._meetings = {}  # how often a group has met

    def device(self):
        return str(current("SymmetricMemory").device)

    def allocate(self, nbytes, index):
        device = current("empty").device
        if device.is_gpu and index != device.index:
            raise ArgumentError(f"peal.torch: symmetric memory of cuda:{index}, and this job's arrays are on {device}; call "
                                "torch.cuda.set_device(peal.device()) before")
        block = _arena.take(nbytes)
        if block.address in self._blocks:
            self._outlived[block.address] += 1
        self._blocks[block.address] = block, {}
        return block.address

    def free(self, address):
        """Answers how many bytes they were. Calls nothing of peal's: the collector may call it."""
        if self._outlived[address]:
            self._outlived[address] -= 1  # whichever of the two it is: the other one gives the memory back
            return 0
        del self._outlived[address]
        block, _ = self._blocks.pop(address)
        return block.room

    def size_of(self, address):
        return self._blocks[address][0].nbytes

    def rendezvous(self, address, group_name):
        """The Handle of the block around an address, and how far into it that is. Collective among the group's members."""
        found = _groups.of("rendezvous", group_name)
        start = next((at for at, (block, _) in self._blocks.items() if at <= address < at + block.room), None)
        if start is None:
            raise ArgumentError("SymmetricMemory.rendezvous: the tensor is not of symm_mem.empty() with the backend PEAL")
        block, handles = self._blocks[start]
        if found.name not in handles:
            handles[found.name] = self._meet(found, block)
        return handles[found.name], address - start

    def _meet(self, group, block):
        pad = _arena.take(_pad_bytes())
        with named("rendezvous"):
            pad.arena.array._pe.device.write(pad.address, bytes(pad.nbytes))
        mine = {"nbytes": block.nbytes, "block": (block.arena.number, block.offset), "pad": (pad.arena.number, pad.offset)}
        store, turn = _groups.store("rendezvous", group), self._meetings.get(group.name, 0)
        self._meetings[group.name] = turn + 1
        key = f"peal/rendezvous/{group.name}/{turn}/"
        store.set(key + str(group.rank), json.dumps(mine))
        told = [json.loads(store.get(key + str(rank))) for rank in range(group.size)]
        for rank, one in enumerate(told):
            if one["nbytes"] != told[0]["nbytes"]:
                raise ArgumentError(f"SymmetricMemory.rendezvous: rank 0 of group {group.name} has {told[0]['nbytes']} bytes, rank {rank} "
                                    f"has {one['nbytes']}; give tensors of one size, in the same order")
        return Handle(group, block, pad, told)
