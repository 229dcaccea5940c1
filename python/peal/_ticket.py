# SPDX-License-Identifier: Apache-2.0
"""Calls that are under way while the program goes on.

    ticket = peal.all_reduce(y, x, "sum", async_op=True)
    ...                                          # computes beside it
    ticket.wait()

What such a call reads and writes stays there until it is done, also where the program drops arrays and ticket."""
from __future__ import annotations

import threading
from typing import Any

from peal._library import FUNCTIONS, answer, must
from peal.errors import Error


class Ticket:
    """A call that was made with async_op=True. It is done in the order of its stream: on a GPU where `stream`, or the current
    one, has it; on a CPU behind the transfers, signals, atomics, barriers and collective calls that this PE has made before,
    and before those it makes later. Kernels, files and signal_wait() do not wait for it there.

    Until it is done nobody writes what it reads, nor reads what it writes. It may be dropped; the call goes on."""

    def __init__(self, pe: Any, call: str, native: int | None, keep: tuple):
        self._pe, self._call, self._native, self._keep = pe, call, native, keep
        self._lock = threading.Lock()
        self._users = 0  # calls of libpeal that have the native ticket
        self._finished = False

    def done(self) -> bool:
        """Whether the call is done, well or badly. Waits for nothing."""
        if not self._finished:
            self._require().caller.directly(self._using, self._call, self._look)
        return self._finished

    def wait(self) -> None:
        """Returns when the call is done. Raises Error for what went wrong in it, or in what this PE had called before. On a
        GPU the program waits, not the stream alone. Ctrl-C ends the wait; the call goes on."""
        self._require().caller.run(self._using, self._call, self._wait_for)

    def _require(self):
        if not self._pe.is_current(self._call):
            raise Error(f"peal.{self._call}: the ticket is of a job that has ended; wait for it before peal.finalize()")
        return self._pe

    def _using(self, call, use):
        with self._lock:
            native = self._native
            self._users += native is not None
        if native is None:
            if use == self._wait_for:
                must(call, "check")
            return
        try:
            use(call, native)
        finally:
            with self._lock:
                self._users -= 1
            self._let_go()

    def _look(self, call, native):
        self._finished = answer(call, "ticket_test", native) == 1

    def _wait_for(self, call, native):
        try:
            must(call, "ticket_wait", native)
        finally:
            self._finished = True

    def _let_go(self):
        """Gives back what the call needed, once it is done and nobody looks. Answers that."""
        with self._lock:
            if not self._finished or self._users or self._native is None:
                return ()
            native, self._native = self._native, None
            kept, self._keep = self._keep, ()
        FUNCTIONS["ticket_free"](native)
        return kept

    def __repr__(self):
        return f"peal.Ticket({self._call}, {'done' if self._finished else 'under way'})"


class Tickets:
    """Those of a PE whose calls are under way: they keep what the calls need where the program drops it."""

    def __init__(self):
        self._pending = []
        self._look_at = 16  # how many there are when it is worth a look
        self._lock = threading.Lock()

    def begin(self, pe, call, name, arguments, stream, keep):
        """Gives peal_NAME to a stream. Answers the Ticket."""
        made = Ticket(pe, call, None, keep)
        with self._lock:
            self._pending.append(made)  # first: an interrupt may come behind the call
        try:
            must(call, name + "_on_stream", *arguments, stream)
        except Error:  # nothing was given to the stream
            with self._lock:
                self._pending.remove(made)
            raise
        made._native = answer(call, "ticket_create", stream)
        if len(self._pending) >= self._look_at:
            self.look()
        return made

    def are_under_way(self):
        """Whether a call is not done yet."""
        if self._pending:
            self.look()
        return bool(self._pending)

    def look(self):
        """Forgets those that are done."""
        with self._lock:
            looked_at = list(self._pending)  # which stay there, whatever ends this
        for one in looked_at:
            one._using(one._call, one._look)
        with self._lock:
            self._pending = [one for one in self._pending if not one._finished]
            self._look_at = 2 * len(self._pending) + 16

    def end(self):
        """Of the job: nobody is inside a call. Answers what calls need until streams have done what they were given."""
        with self._lock:
            ending, self._pending = self._pending, []
        for one in ending:
            one._finished = True
        return [one._let_go() for one in ending]
