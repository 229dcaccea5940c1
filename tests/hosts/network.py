# SPDX-License-Identifier: Apache-2.0
"""The network of the virtual hosts: an Ethernet switch in a thread, one socket to each host's qemu.

qemu sends each frame with its length before it (4 bytes, big-endian). The card of host n has the address 52:54:0:0:0:n,
so that the switch has nothing to learn. As any switch it drops a frame when the way out is full, and those between two
hosts from cut() to heal(). In bad weather, until heal(), it loses, doubles, delays and reorders frames by chance, as
netem does.
"""
import collections
import dataclasses
import heapq
import itertools
import random
import selectors
import socket
import threading
import time

FULL = 4 << 20  # bytes on their way to one host


@dataclasses.dataclass(frozen=True)
class Weather:
    """Shares of frames, and seconds that all of them take, or those that others overtake."""
    lost: float = 0
    doubled: float = 0
    delay: float = 0
    late: float = 0
    late_by: float = 0


class Port:
    def __init__(self, number):
        self.number = number
        self.ours, self.theirs = socket.socketpair()
        self.ours.setblocking(False)
        self.heard = bytearray()
        self.waiting = collections.deque()
        self.waiting_bytes = 0

    def mac(self):
        return f"52:54:00:00:00:{self.number:02x}"

    def frames(self):
        """Whole frames of what has been heard, with their lengths before them."""
        at = 0
        while len(self.heard) - at >= 4:
            end = at + 4 + int.from_bytes(self.heard[at:at + 4], "big")
            if len(self.heard) < end:
                break
            yield bytes(self.heard[at:end])
            at = end
        del self.heard[:at]

    def send(self, frame):
        if self.waiting_bytes + len(frame) <= FULL:
            self.waiting.append(memoryview(frame))
            self.waiting_bytes += len(frame)
        self.flush()

    def flush(self):
        while self.waiting:
            try:
                sent = self.ours.send(self.waiting[0])
            except BlockingIOError:
                return
            self.waiting_bytes -= sent
            if sent == len(self.waiting[0]):
                self.waiting.popleft()
            else:
                self.waiting[0] = self.waiting[0][sent:]


class Network:
    """Ports 1 to `hosts`. Give port n's `theirs` to host n's qemu, then start()."""

    def __init__(self, hosts):
        self.ports = {number: Port(number) for number in range(1, hosts + 1)}
        self.cuts = frozenset()
        self.dropped = 0  # frames between hosts that are cut off from each other, since cut()
        self.weather = Weather()
        self.hit = collections.Counter()  # frames, by what became of them
        self.chance = random.Random(1)
        self.delayed = []  # a heap: when they are due, their number, the frame, the way out
        self.numbers = itertools.count()
        self.wake, self.woken = socket.socketpair()
        self.thread = threading.Thread(target=self.carry, daemon=True)

    def start(self):
        for port in self.ports.values():
            port.theirs.close()
        self.thread.start()

    def stop(self):
        self.wake.close()
        self.thread.join()

    def cut(self, one, other):
        """Both ways, as if a cable were out: neither card sees that."""
        self.dropped = 0
        self.cuts = self.cuts | {frozenset((one, other))}

    def worsen(self, weather):
        self.hit.clear()
        self.weather = weather

    def heal(self):
        self.cuts = frozenset()
        self.weather = Weather()

    def carry(self):
        with selectors.DefaultSelector() as waits:
            waits.register(self.woken, selectors.EVENT_READ)
            for port in self.ports.values():
                waits.register(port.ours, selectors.EVENT_READ, port)
            while True:
                rest = max(0, self.delayed[0][0] - time.monotonic()) if self.delayed else None
                for key, events in waits.select(rest):
                    if key.data is None:
                        return
                    self.serve(key.data, events, waits)
                self.send_delayed(waits)

    def serve(self, port, events, waits):
        try:
            if events & selectors.EVENT_WRITE:
                port.flush()
            heard = port.ours.recv(1 << 18) if events & selectors.EVENT_READ else None
        except OSError:
            heard = b""
        if heard == b"":  # powered off
            waits.unregister(port.ours)
            del self.ports[port.number]
            return
        port.heard += heard or b""
        for frame in port.frames():
            self.forward(port, frame)
        self.watch(waits)

    def watch(self, waits):
        for other in self.ports.values():
            waits.modify(other.ours, selectors.EVENT_READ | (selectors.EVENT_WRITE if other.waiting else 0), other)

    def forward(self, port, frame):
        everybody = frame[4] & 1  # multicast, broadcast
        for other in self.ports.values():
            if other is not port and (everybody or other.number == frame[9]):
                if frozenset((port.number, other.number)) in self.cuts:
                    self.dropped += 1
                    continue
                self.weather_to(other, frame)

    def weather_to(self, other, frame):
        weather = self.weather
        if weather == Weather():
            return self.send(other, frame)
        if self.chance.random() < weather.lost:
            self.hit["lost"] += 1
            return None
        copies = 1
        if self.chance.random() < weather.doubled:
            self.hit["doubled"] += 1
            copies = 2
        for _ in range(copies):
            late = self.chance.random() < weather.late
            self.hit["late"] += late
            due = time.monotonic() + weather.delay + (weather.late_by if late else 0)
            heapq.heappush(self.delayed, (due, next(self.numbers), frame, other))
        return None

    def send_delayed(self, waits):
        sent = False
        while self.delayed and self.delayed[0][0] <= time.monotonic():
            _, _, frame, other = heapq.heappop(self.delayed)
            sent = True
            if other.number in self.ports:
                self.send(other, frame)
        if sent:
            self.watch(waits)

    @staticmethod
    def send(other, frame):
        try:
            other.send(frame)
        except OSError:
            pass  # powered off: its own end tells, above
