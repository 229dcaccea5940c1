# SPDX-License-Identifier: Apache-2.0
"""Symmetric memory whose owner is Python's garbage collector, which drops arrays when it likes, on each PE another one.

libpeal's free is collective. So a dropped array is only noted here, and given back later:

    PE 0   drops 3      drops 5      allocates:  dropped 3, 5  \\
    PE 1                drops 3      allocates:  dropped 3     -> all dropped 3: all free 3; 5 stays until PE 1 drops it

Every allocation has a slot, the same number on all PEs, for these allocate in the same order and free the same slots.
An allocation, and collect(), first completes what this PE has put, then finds by one all_reduce the slots that all PEs
have dropped. So no transfer can reach memory that has a new owner: whoever put into an array had it until the put was
done here, or given to a stream, whose end a PE that has dropped something waits for; and quiet has completed it there.
Nothing that the collector calls asks, waits for, or sends anything."""
import collections
import hashlib
import heapq
import threading
import weakref

from peal import _device
from peal._library import FUNCTIONS, OPERATIONS, TYPES, Buffers, answer, failure, must
from peal.errors import ArgumentError, Error

_MOST = 1 << 16  # arrays at once
_HEAD = 2  # words: what is asked for, and its complement
_TEXT = 256  # bytes in which a PE tells what it asked for
_WORD = 64
_ONES = (1 << _WORD) - 1


class Memory:
    """One allocation. It is dropped when nothing refers to it: neither an array nor what was made of one."""

    __slots__ = ("__weakref__", "address", "exported", "heap", "nbytes", "slot")

    def __init__(self, heap, slot, address, nbytes):
        self.heap, self.slot, self.address, self.nbytes = heap, slot, address, nbytes
        self.exported = set()  # addresses that numpy has: here, and where peers' memory is mapped

    def __del__(self):
        self.heap.dropped.append(self.slot)  # the collector may call from within any line, in any thread

    def at(self, address):
        """An object that numpy takes for bytes: at `address`, as many as this memory has, which it keeps."""
        self.exported.add(address)
        return _Bytes(self, address, self.nbytes)

    def untouched(self, address, nbytes):
        """The same of some bytes that this process must not load or store."""
        return _Bytes(self, address, nbytes)


class _Bytes:
    """Numpy's array interface of some memory."""

    __slots__ = ("__array_interface__", "memory")

    def __init__(self, memory, address, nbytes):
        self.memory = memory
        self.__array_interface__ = {"version": 3, "typestr": "|u1", "shape": (nbytes,), "data": (address, False)}


class Heap:
    """The symmetric memory of a PE between init() and finalize(). All but Memory.__del__ is collective."""

    def __init__(self, pe):
        self._pe = pe
        self._lock = threading.Lock()
        self.dropped = collections.deque()
        self._dropped_here = 0  # a bit for each slot
        self._live = {}  # address by slot
        self._free_slots = []
        self._slots = 0
        self._memories = {}  # weakly, by slot
        words = _HEAD + _MOST // _WORD
        self._agreed = answer("init", "calloc", 2 * words, 8)
        self._told = self._agreed + 8 * words
        self._texts = answer("init", "calloc", pe.n_pes + 1, _TEXT)
        with _device.named("init"):
            self.device = _device.of_memory(self._agreed)

    def allocate(self, call, nbytes, what, zeroed):
        """`nbytes` of memory, for what all PEs call `what`; what all have dropped is given back before."""
        self._pe.synchronize(call, None)  # of two calls of one team at a time the second is refused
        return self._pe.caller.run(self._allocate, call, nbytes, what, zeroed)

    def collect(self):
        """Gives back what all PEs have dropped. Answers how many allocations that were."""
        self._pe.synchronize("collect", None)
        return self._pe.caller.run(self._give_back, "collect", "")

    def exported(self):
        """Ranges (address, bytes) that arrays of numpy's can see."""
        return [(at, memory.nbytes) for reference in list(self._memories.values()) if (memory := reference()) is not None
                for at in memory.exported]

    def _allocate(self, call, nbytes, what, zeroed):
        with self._lock:
            self._give_back_locked(call, what)
            if not self._free_slots and self._slots == _MOST:
                raise Error(f"peal.{call}: {_MOST} arrays are there at once, which is the limit; drop some on all PEs")
            address = FUNCTIONS["calloc"](1, nbytes or 1) if zeroed else FUNCTIONS["malloc"](nbytes or 1)
            if address is None:
                raise failure(call)
            slot = heapq.heappop(self._free_slots) if self._free_slots else self._slots
            self._slots = max(self._slots, slot + 1)
            self._live[slot] = address
            memory = Memory(self, slot, address, nbytes)
            self._memories[slot] = weakref.ref(memory)
            return memory

    def _give_back(self, call, what):
        with self._lock:
            return self._give_back_locked(call, what)

    def _give_back_locked(self, call, what):
        agreed = self._agree(call, what)
        for slot in agreed:
            must(call, "free", self._live.pop(slot))
            del self._memories[slot]
            self._dropped_here &= ~(1 << slot)
            heapq.heappush(self._free_slots, slot)
        return len(agreed)

    def _agree(self, call, what):
        """The slots that all PEs have dropped. Raises on all PEs where they call for different things."""
        self._pe.tickets.look()  # which have kept arrays
        with _device.named(call):
            told = self._tell(what)
        must(call, "quiet")
        buffers = Buffers(self._agreed, self._told, len(told) // 8, TYPES["uint64"])
        must(call, "all_reduce", self._pe.world, buffers, OPERATIONS["and"])
        with _device.named(call):
            agreed = int.from_bytes(self.device.read(self._agreed, len(told)), "little")
        if agreed & _ONES != agreed >> _WORD & _ONES ^ _ONES:
            self._raise_difference(call, what)
        both = agreed >> _HEAD * _WORD
        found = []
        while both:
            slot = (both & -both).bit_length() - 1
            found.append(slot)
            both &= both - 1
        return found

    def _tell(self, what):
        """Writes what this PE asks for and has dropped where the others find it. Answers the bytes."""
        while self.dropped:
            self._dropped_here |= 1 << self.dropped.popleft()
        if self._dropped_here:
            self.device.settle()
        digest = int.from_bytes(hashlib.blake2b(what.encode(), digest_size=8).digest(), "little")
        words = -(-self._slots // _WORD)
        told = digest | (digest ^ _ONES) << _WORD | self._dropped_here << _HEAD * _WORD
        data = told.to_bytes(8 * (_HEAD + words), "little")
        self.device.write(self._told, data)
        return data

    def _raise_difference(self, call, what):
        mine = self._texts + self._pe.n_pes * _TEXT
        with _device.named(call):
            self.device.write(mine, what.encode()[:_TEXT - 1] + b"\0")
        must(call, "all_gather", self._pe.world, Buffers(self._texts, mine, _TEXT, TYPES["uint8"]))
        with _device.named(call):
            texts = self.device.read(self._texts, self._pe.n_pes * _TEXT)
        told = [texts[at:at + _TEXT].split(b"\0")[0].decode() or "collect" for at in range(0, len(texts), _TEXT)]
        other = next(pe for pe, text in enumerate(told) if text != told[0])
        raise ArgumentError(f"peal.{call}: PE 0 asks for {told[0]}, PE {other} for {told[other]}: all PEs must make the same "
                            "array, in the same order; nothing was allocated")
