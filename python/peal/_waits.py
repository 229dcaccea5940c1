# SPDX-License-Identifier: Apache-2.0
"""Calls of libpeal: made so that Ctrl-C ends a wait in Python at once, and counted, so that no job ends under one.

Signals reach Python in the main thread alone, and only while that runs Python. So the main thread hands a call that may
wait for other PEs to a thread of peal's and waits for a lock, which a signal's handler can interrupt:

    main thread      call ---> waits for `done` ---------> result
    peal's thread         \\--> libpeal, without the GIL --/

What was interrupted goes on in libpeal until it is done, fails, or its deadline ends it, for half a collective call
cannot be taken back; later calls of this PE come behind it. Other threads call libpeal themselves."""
import _thread
import queue
import threading
import time

from peal.errors import Error

_MAIN = threading.main_thread()
_AWAKE_S = 0.1  # a signal that comes just before the main thread begins to wait does not wake it
_LOOK_S = 0.01  # between looks whether other threads have come back


class _Call:
    """A call of the main thread: `result` or `error` is there once `done` can be had. Whoever has the claim decides:
    peal's thread makes the call, or the main thread has given it up before."""

    __slots__ = ("arguments", "claim", "done", "error", "finished", "function", "given_up", "result", "thread")

    def __init__(self, function, arguments):
        self.function, self.arguments, self.thread = function, arguments, _MAIN
        self.result = self.error = None
        self.finished = self.given_up = False
        self.claim = _thread.allocate_lock()
        self.done = _thread.allocate_lock()
        self.done.acquire()

    def give_up(self):
        """True if it has not begun: it never will."""
        if self.claim.acquire(False):
            self.given_up = True
        return self.given_up

    def make(self):
        try:
            self.result = self.function(*self.arguments)
        except BaseException as error:  # noqa: BLE001  (raised where the call was made)
            self.error = error


class _Mark:
    """A call that the thread makes by itself."""

    __slots__ = ("arguments", "thread")

    def __init__(self, arguments):
        self.arguments, self.thread = arguments, threading.current_thread()


class Caller:
    """Makes the calls of a process. One from its first init() on."""

    def __init__(self):
        self._calls = queue.SimpleQueue()
        self._left = []  # interrupted calls that libpeal may still be in
        self._lock = threading.Lock()  # of who takes from that list
        self._under_way = {}  # what is in libpeal or about to be, as keys
        self._closed = None  # why no call is let in, and for whose end
        threading.Thread(target=self._work, name="peal", daemon=True).start()

    def _work(self):
        while True:
            call = self._calls.get()
            if call.claim.acquire(False):
                call.make()
            elif call.finished:  # came twice
                continue
            call.finished = True
            self._under_way.pop(call, None)
            call.done.release()
            del call  # holds arrays

    # An end closes and then looks who is inside; a call marks itself and then looks whether it is closed: one of the two
    # sees the other.

    def _enter(self, mark):
        self._under_way[mark] = None
        if self._closed is not None:
            raise Error(f"peal.{_name(mark)}: {self._closed[0]}")

    def close(self, why, call, end):
        """From now on calls raise `why`, until open(end). Raises Error, in the name of `call`, where another thread is
        inside one, and all is as it was."""
        if self._closed is not None:
            raise Error(f"peal.{call}: {self._closed[0]}")
        self._closed = why, end
        others = self.others()
        if others:
            self.open(end)
            told = ", ".join(f"{mark.thread.name!r} in peal.{_name(mark)}" for mark in others[:3])
            raise Error(f"peal.{call}: another thread is inside a call: {told}; wait for it (Thread.join), or end its wait "
                        "by peal.abort(), before the job ends")

    def close_for_good(self, why):
        """The same whoever is inside: for an end that waits for nobody."""
        self._closed = why, None

    def open(self, end=None):
        """Lets calls in, unless it is another end that keeps them out."""
        if end is None or (self._closed is not None and self._closed[1] is end):
            self._closed = None

    def is_closed(self):
        return self._closed is not None

    def others(self, seconds=0):
        """Calls of other threads that are under way, and still are after so many seconds."""
        end = time.monotonic() + seconds
        me = threading.current_thread()
        while True:
            found = [mark for mark in list(self._under_way) if mark.thread is not me]
            if not found or time.monotonic() >= end:
                return found
            time.sleep(_LOOK_S)

    def directly(self, function, *arguments):
        """function(*arguments), at once and in this thread."""
        mark = _Mark(arguments)
        try:
            self._enter(mark)
            return function(*arguments)
        finally:
            self._under_way.pop(mark, None)

    def run(self, function, *arguments):
        """function(*arguments), which a signal may interrupt."""
        if threading.current_thread() is not _MAIN:
            return self.directly(function, *arguments)
        return self.wait(_Call(function, arguments), self._enter)

    def run_short(self, function, *arguments):
        """The same for what waits for nobody: at once, but behind calls that were interrupted."""
        return (self.run if self._left and self.busy() else self.directly)(function, *arguments)

    def prepare(self, function, *arguments):
        """A call for wait(), which is made even if others are not let in."""
        return _Call(function, arguments)

    def wait(self, call, enter=lambda call: None):
        """Has a call made, behind those that were interrupted; its result. A signal may interrupt it: then call.give_up()
        tells whether it has been begun, and so goes on."""
        if threading.current_thread() is not _MAIN:
            if call.claim.acquire(False):
                call.make()
                call.finished = True
        else:
            try:
                enter(call)
                self._calls.put(call)
                while not call.done.acquire(timeout=_AWAKE_S):
                    pass
            except BaseException:
                self._left.append(call)  # first, and in one step: a second interrupt may end all that follows
                self._give_up(call)
                raise
        if call.error is not None:
            try:
                raise call.error
            finally:
                call.error = None  # whose traceback has this frame
        return call.result

    def _give_up(self, call):
        """May be done again, by who finds that an interrupt ended it."""
        call.give_up()
        self._calls.put(call)  # the interrupt may have come before the first time

    def wait_for_interrupted(self, call):
        """Returns when interrupted calls are done. Raises Error, in the name of `call`, where that is to be asked of
        another thread than the main one."""
        if self.busy() and threading.current_thread() is not _MAIN:
            raise Error(f"peal.{call}: a call that was interrupted is still under way; call it from the main thread, which "
                        "waits for that, or later")
        self.wait(self.prepare(lambda: None))

    def busy(self, seconds=0):
        """True while an interrupted call is under way, and still is after so many seconds."""
        with self._lock:
            while self._left:
                call = self._left[0]
                if not call.finished:  # else the interrupt came behind its end, and `done` is had
                    self._give_up(call)
                    if not call.done.acquire(timeout=seconds):
                        return True
                    call.done.release()
                self._left.pop(0)
        return False


def _name(mark):
    return mark.arguments[0] if mark.arguments and isinstance(mark.arguments[0], str) else "call"
