# SPDX-License-Identifier: Apache-2.0
"""Calls that may wait for other PEs, made so that Ctrl-C ends the wait in Python at once.

Signals reach Python in the main thread alone, and only while that runs Python. So the main thread hands such a call to
a thread of peal's and waits for a lock, which a signal's handler can interrupt:

    main thread      call ---> waits for `done` ---------> result
    peal's thread         \\--> libpeal, without the GIL --/

What was interrupted goes on in libpeal until it is done, fails, or its deadline ends it, for half a collective call
cannot be taken back; later calls of this PE come behind it. Other threads call libpeal themselves."""
import _thread
import queue
import threading

_MAIN = threading.main_thread()


class _Call:
    """A call under way: `result` or `error` is there once `done` can be had."""

    __slots__ = ("arguments", "done", "error", "finished", "function", "given_up", "result")

    def __init__(self, function, arguments):
        self.function, self.arguments = function, arguments
        self.result = self.error = None
        self.given_up = self.finished = False
        self.done = _thread.allocate_lock()
        self.done.acquire()


class Caller:
    """Makes the main thread's calls. One for a process, from its first init() on."""

    def __init__(self):
        self._calls = queue.SimpleQueue()
        self._left = []  # interrupted calls that libpeal may still be in
        self._lock = threading.Lock()  # of that list
        threading.Thread(target=self._work, name="peal", daemon=True).start()

    def _work(self):
        while True:
            call = self._calls.get()
            if call.finished:  # came twice
                continue
            if not call.given_up:
                try:
                    call.result = call.function(*call.arguments)
                except BaseException as error:  # noqa: BLE001  (raised where the call was made)
                    call.error = error
            call.finished = True
            call.done.release()
            del call  # holds arrays

    def run(self, function, *arguments):
        """function(*arguments), which a signal may interrupt."""
        if threading.current_thread() is not _MAIN:
            return function(*arguments)
        call = _Call(function, arguments)
        try:
            self._calls.put(call)
            call.done.acquire()
        except BaseException:
            call.given_up = True
            self._calls.put(call)  # the interrupt may have come before the first time
            with self._lock:
                self._left.append(call)
            raise
        if call.error is not None:
            try:
                raise call.error
            finally:
                call.error = None  # whose traceback has this frame
        return call.result

    def run_short(self, function, *arguments):
        """The same for what waits for nobody: at once, but behind calls that were interrupted."""
        return self.run(function, *arguments) if self._left and self.busy() else function(*arguments)

    def busy(self, seconds=0):
        """True while an interrupted call is under way, and still is after so many seconds."""
        with self._lock:
            while self._left:
                call = self._left[0]
                if not call.finished:  # else the interrupt came behind its end, and `done` is had
                    if not call.done.acquire(timeout=seconds):
                        return True
                    call.done.release()
                self._left.pop(0)
        return False
