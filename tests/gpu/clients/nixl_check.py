# SPDX-License-Identifier: Apache-2.0
"""NIXL's UCX backend over the software NIC: every byte that it moves is checked. Started by nixl.sh.

nixl_check.py RANK SIZE FOLDER MEMORY: rank 0 listens in FOLDER; MEMORY is DRAM or VRAM (by torch, a GPU for each rank).
Each rank writes to the next one and reads from it. Every wait has a deadline. Prints a line a check, and at last
"N passed, N failed"; after a time-out the process ends at once, since its peers no longer take part.
"""
import os
import pickle
import random
import socket
import struct
import sys
import time

import numpy as np
from nixl_cu13 import nixl_agent, nixl_agent_config

PATIENCE = 20.0  # seconds, each wait
MOST = 16 << 20
GUARD = 4096
PAGE = 64 << 10
SIZES = (1, 8, 20, 63, 64, 1000, 4096, PAGE + 4, 1 << 20, MOST)
OFFSETS = (0, 8, 3, 1021)
EMPTY = 0xA5  # what a target holds before
WAVE = np.fromfunction(lambda at: at * 7 + (at >> 8) * 13, (MOST + GUARD,), dtype=np.int64).astype(np.uint8)


def pattern(rank, turn, begin, size):
    """The bytes [begin, begin + size) that rank `rank` has in turn `turn`."""
    return WAVE[begin:begin + size] + np.uint8((rank * 101 + turn * 29 + 1) & 255)


def give_up(why):
    print(f"nixl_check: {why}", flush=True)
    os._exit(1)


class Peers:
    """What the ranks tell each other beside NIXL: a star of Unix sockets, rank 0 in its middle."""

    def __init__(self, rank, size, folder):
        self.rank, self.size = rank, size
        path = os.path.join(folder, "peers")
        if rank == 0:
            listener = socket.socket(socket.AF_UNIX)
            listener.settimeout(PATIENCE * 2)
            listener.bind(path + ".new")
            listener.listen(size)
            os.rename(path + ".new", path)
            self.others = [listener.accept()[0] for _ in range(size - 1)]
        else:
            self.others = [self._reach(path)]
        for other in self.others:
            other.settimeout(PATIENCE * 2)

    @staticmethod
    def _reach(path):
        until = time.monotonic() + PATIENCE * 2
        while not os.path.exists(path):
            if time.monotonic() > until:
                give_up("rank 0 does not listen")
            time.sleep(0.01)
        one = socket.socket(socket.AF_UNIX)
        one.connect(path)
        return one

    @staticmethod
    def _send(to, what):
        data = pickle.dumps(what)
        to.sendall(struct.pack("<Q", len(data)) + data)

    @staticmethod
    def _receive(whom):
        def exactly(count):
            data = b""
            while len(data) < count:
                some = whom.recv(count - len(data))
                if not some:
                    give_up("a peer has ended")
                data += some
            return data
        return pickle.loads(exactly(struct.unpack("<Q", exactly(8))[0]))

    def gather(self, mine=None):
        """What each rank gave, by rank. A barrier, too."""
        try:
            if self.rank != 0:
                self._send(self.others[0], (self.rank, mine))
                return self._receive(self.others[0])
            told = dict([(0, mine)] + [self._receive(other) for other in self.others])
            for other in self.others:
                self._send(other, [told[rank] for rank in range(self.size)])
            return [told[rank] for rank in range(self.size)]
        except TimeoutError:
            give_up("a peer says nothing")


class Dram:
    """`bytes` bytes of the host's memory that start at no boundary of a page."""

    def __init__(self, size):
        self._all = np.full(size + GUARD, EMPTY, dtype=np.uint8)
        self._view = self._all[64:64 + size]
        self.address, self.size, self.device = self._view.ctypes.data, size, 0

    def store(self, at, data):
        self._view[at:at + len(data)] = data

    def load(self, at, size):
        return self._view[at:at + size].copy()

    def clear(self):
        self._view[:] = EMPTY


class Vram:
    """The same of a GPU."""

    def __init__(self, size):
        import torch
        self._torch = torch
        self._view = torch.full((size,), EMPTY, dtype=torch.uint8, device="cuda")
        self.address, self.size, self.device = self._view.data_ptr(), size, torch.cuda.current_device()
        torch.cuda.synchronize()

    def store(self, at, data):
        self._view[at:at + len(data)].copy_(self._torch.from_numpy(np.ascontiguousarray(data)))
        self._torch.cuda.synchronize()

    def load(self, at, size):
        return self._view[at:at + size].cpu().numpy()

    def clear(self):
        self._view.fill_(EMPTY)
        self._torch.cuda.synchronize()


class Check:
    def __init__(self, peers, kind):
        self.peers, self.kind = peers, kind
        self.rank, self.next = peers.rank, (peers.rank + 1) % peers.size
        self.before = (peers.rank + peers.size - 1) % peers.size
        self.turn = self.passed = self.failed = 0
        self.agent = nixl_agent(f"agent{self.rank}", nixl_agent_config(backends=["UCX"]))
        memory = Vram if kind == "VRAM" else Dram
        self.source, self.target = memory(MOST + GUARD), memory(MOST + GUARD)
        for part in (self.source, self.target):
            self.agent.register_memory([(part.address, part.size, part.device, "")], kind)
        self.where = peers.gather([(part.address, part.device) for part in (self.source, self.target)])
        for rank, metadata in enumerate(peers.gather(self.agent.get_agent_metadata())):
            if rank != self.rank and self.agent.add_remote_agent(metadata) not in (f"agent{rank}", b"agent%d" % rank):
                give_up("another agent's name came back")

    def say(self, name, well):
        self.passed, self.failed = self.passed + bool(well), self.failed + (not well)
        print(f"rank {self.rank}: {name}: {'ok' if well else 'FAILED'}", flush=True)

    def begin(self):
        """A turn: new bytes in the source, none in the target, of every rank."""
        self.turn += 1
        self.peers.gather()
        self.source.store(0, pattern(self.rank, self.turn, 0, self.source.size))
        self.target.clear()
        self.peers.gather()

    def same(self, name, rank, parts, begin=0, end=None):
        """Whether [begin, end) of the target holds `parts`, (offset there, offset in rank's source, bytes), and nothing
        else."""
        length = (end or self.target.size) - begin
        wanted = np.full(length, EMPTY, dtype=np.uint8)
        for there, here, size in parts:
            wanted[there - begin:there - begin + size] = pattern(rank, self.turn, here, size)
        got = self.target.load(begin, length)
        if np.array_equal(got, wanted):
            return True
        wrong = np.flatnonzero(got != wanted)
        print(f"rank {self.rank}: {name}: {wrong.size} bytes are wrong; byte {begin + wrong[0]} is {got[wrong[0]]} and not "
              f"{wanted[wrong[0]]}", flush=True)
        return False

    def sides(self, operation, parts):
        """The descriptors here and at the next rank; `parts` as in same()."""
        reads = operation == "READ"
        mine, (address, device) = (self.target, self.where[self.next][0]) if reads else \
            (self.source, self.where[self.next][1])
        local = [(mine.address + (there if reads else here), size, mine.device) for there, here, size in parts]
        remote = [(address + (here if reads else there), size, device) for there, here, size in parts]
        return self.agent.get_xfer_descs(local, self.kind), self.agent.get_xfer_descs(remote, self.kind)

    def start(self, operation, parts, note=b""):
        local, remote = self.sides(operation, parts)
        handle = self.agent.initialize_xfer(operation, local, remote, f"agent{self.next}", note)
        self.post(handle)
        return handle

    def post(self, handle):
        if self.agent.transfer(handle) == "ERR":
            give_up(f"rank {self.rank}: a transfer was refused")

    def finish(self, handle, what):
        until = time.monotonic() + PATIENCE
        while (state := self.agent.check_xfer_state(handle)) == "PROC":
            if time.monotonic() > until:
                give_up(f"rank {self.rank}: {what} is not done after {PATIENCE} s")
        if state != "DONE":
            give_up(f"rank {self.rank}: {what} ends with {state}")

    def notes(self, count):
        """The next `count` notifications of the rank before."""
        until, got = time.monotonic() + PATIENCE, []
        while len(got) < count:
            for name, some in self.agent.get_new_notifs().items():
                if name != f"agent{self.before}":
                    give_up(f"rank {self.rank}: a notification of {name}")
                got += some
            if time.monotonic() > until:
                give_up(f"rank {self.rank}: {len(got)} of {count} notifications came in {PATIENCE} s")
        return got

    def moved(self, operation, name, parts):
        """One transfer of all parts by every rank."""
        self.begin()
        handle = self.start(operation, parts)
        self.finish(handle, name)
        self.peers.gather()
        well = self.same(name, self.next if operation == "READ" else self.before, parts)
        self.agent.release_xfer_handle(handle)
        return well

    def sizes(self, operation):
        for size in SIZES:
            name = f"{operation} of {size} bytes"
            self.say(name, all([self.moved(operation, name, [(offset, (offset * 5) % GUARD if size < MOST else 0, size)])
                                for offset in OFFSETS[:4 if size < MOST else 3]]))

    def scattered(self, operation):
        """Descriptors of all sorts of sizes, at offsets that are no multiple of anything, in a random order."""
        dice, parts, there, here = random.Random(7), [], 5, 1
        for _ in range(150):
            size = dice.choice((1, 2, 7, 8, 63, 64, 65, 255, 1000, 4097, 30001, PAGE + 1))
            parts.append((there, here, size))
            there, here = there + size + dice.randrange(1, 100), here + size + dice.randrange(0, 3)
        dice.shuffle(parts)
        name = f"{operation} of {len(parts)} descriptors"
        self.say(name, self.moved(operation, name, parts))

    def pages(self, operation):
        """A cache of keys and values: pages of 64 KiB in another order at the other end, by prepared lists, in parts."""
        count = MOST // PAGE
        dice = random.Random(11)
        order = dice.sample(range(count), count)
        local, remote = self.sides(operation, [(page * PAGE, page * PAGE, PAGE) for page in range(count)])
        mine = self.agent.prep_xfer_dlist("NIXL_INIT_AGENT", local)
        others = self.agent.prep_xfer_dlist(f"agent{self.next}", remote)
        self.begin()
        handles = [self.agent.make_prepped_xfer(operation, mine, list(range(at, at + 64)), others, order[at:at + 64])
                   for at in range(0, count, 64)]
        for handle in handles:
            self.post(handle)
        for handle in handles:
            self.finish(handle, "a list of pages")
        self.peers.gather()
        reads = operation == "READ"
        parts = [(here * PAGE, there * PAGE, PAGE) if reads else (there * PAGE, here * PAGE, PAGE)
                 for here, there in enumerate(order)]
        name = f"{operation} of {count} pages of {PAGE >> 10} KiB"
        self.say(name, self.same(name, self.next if reads else self.before, parts))
        for handle in handles:
            self.agent.release_xfer_handle(handle)
        for part in (mine, others):
            self.agent.release_dlist_handle(part)

    def notified(self):
        """Who sees a write's notification sees its bytes."""
        well = True
        for turn in range(12):
            parts = [(9 + at * 70001, at * 70001, 1 + 4999 * turn) for at in range(16)]
            self.begin()
            handle = self.start("WRITE", parts, b"turn %d" % turn)
            self.finish(handle, "a write with a notification")  # NIXL sends it when it is asked about the write
            well = self.notes(1) == [b"turn %d" % turn] and self.same("notified", self.before, parts) and well
            self.peers.gather()
            self.agent.release_xfer_handle(handle)
        self.say("WRITE with a notification", well)

    def told(self):
        """Notifications without a transfer, in order and whole."""
        sent = [bytes([turn & 255]) * size for turn, size in enumerate((1, 8, 100, 1000, 5000, 20000) * 20)]
        self.peers.gather()
        for note in sent:
            self.agent.send_notif(f"agent{self.next}", note)
        got = self.notes(len(sent))
        self.say(f"{len(sent)} notifications", got == sent)
        self.peers.gather()

    def both_ways(self):
        """Every rank writes and reads at once; a handle is posted again when it is done."""
        half, well = MOST // 2, True
        written = [(at * (PAGE + 32) + 1, at * (PAGE + 16) + 3, PAGE) for at in range(100)]
        read = [(half + at * (PAGE + 32) + 1, at * (PAGE + 16) + 3, PAGE) for at in range(100)]
        self.begin()
        handles = [self.start("WRITE", written), self.start("READ", read)]
        for turn in range(8):
            for handle in handles:
                self.finish(handle, "a transfer of both ways at once")
            self.peers.gather()
            # With two ranks both parts come from the same one; with more, each from its own.
            for rank, parts, begin in ((self.before, written, 0), (self.next, read, half)):
                well = self.same("both ways", rank, parts, begin, begin + half) and well
            if turn < 7:
                self.begin()
                for handle in handles:
                    self.post(handle)
        for handle in handles:
            self.agent.release_xfer_handle(handle)
        self.say("WRITE and READ both ways at once", well)

    def sees(self):
        """A checker that finds nothing checks nothing: one byte is changed."""
        self.begin()
        self.finish(self.start("WRITE", [(3, 0, 1000)]), "a write")
        self.peers.gather()
        self.target.store(500, np.array([self.target.load(500, 1)[0] ^ 1], dtype=np.uint8))
        self.say("(that byte was planted) seen", not self.same("planted", self.before, [(3, 0, 1000)]))


def main():
    rank, size, folder, kind = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
    if kind == "VRAM":
        import torch
        torch.cuda.set_device(rank % torch.cuda.device_count())
        torch.zeros(1, device="cuda")  # UCX looks for a context of CUDA's
    check = Check(Peers(rank, size, folder), kind)
    check.sees()
    for operation in ("WRITE", "READ"):
        check.sizes(operation)
        check.scattered(operation)
        check.pages(operation)
    check.notified()
    check.told()
    check.both_ways()
    check.peers.gather()
    print(f"rank {rank}: {check.passed} passed, {check.failed} failed", flush=True)
    os._exit(1 if check.failed else 0)  # NIXL's threads are not waited for, whatever they do


main()
