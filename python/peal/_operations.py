# SPDX-License-Identifier: Apache-2.0
"""Calls between two PEs: transfers, signals, atomics; and what orders and completes them.

Remote memory is named by this PE's own array: `put(y, x, 3)` writes into the y of PE 3. When a put has arrived at the
other PE, quiet(), barrier() or a signal behind it tells.

On a CPU all are done on return: the source may be reused, what was asked for is here. Calls of a PE follow one another
in the order in which its threads make them. On a GPU they are done in the order of `stream`, or of the current one
(torch's, cupy's, CUDA's default), on return they are not, and graphs may capture them; what fails then check() and
synchronize() raise. Only atomics that answer a value wait for the stream and are done on return.

With `async_op=True`, as torch.distributed has it, calls return at once on a CPU too, and answer a Ticket."""
from __future__ import annotations

import ctypes
from typing import Any

from peal import _arguments as arguments
from peal._array import Array
from peal._job import current
from peal._library import ATOMICS, COMPARISONS, SIGNALS, TYPES, Signal, answer, must
from peal._stream import require_none
from peal._ticket import Ticket
from peal.errors import ArgumentError

Word = Any  # an Array or a part of one, with one integer of 4 or 8 bytes


def put(dst: Any, src: Any, pe: int, *, stream: Any = None, async_op: bool = False) -> Ticket | None:
    """Copies `src`, of this PE, into `dst` of PE `pe`. Both have as many elements of one dtype; `dst` is symmetric."""
    here = current("put")
    to, from_ = arguments.buffer("put", "dst", dst), arguments.buffer("put", "src", src)
    arguments.require_alike("put", to, from_)
    return here.make_short("put", "put", to.address, from_.address, to.nbytes, arguments.number("put", "pe", pe),
                           stream=stream, async_op=async_op, keep=(to, from_))


def get(dst: Any, src: Any, pe: int, *, stream: Any = None, async_op: bool = False) -> Ticket | None:
    """Copies `src` of PE `pe` into `dst`, of this PE. Both have as many elements of one dtype; `src` is symmetric."""
    here = current("get")
    to, from_ = arguments.buffer("get", "dst", dst, written=True), arguments.buffer("get", "src", src)
    arguments.require_alike("get", to, from_)
    return here.make_short("get", "get", to.address, from_.address, to.nbytes, arguments.number("get", "pe", pe),
                           stream=stream, async_op=async_op, keep=(to, from_))


def _signal(call, word, value, pe, op):
    found = arguments.word(call, "signal", word)
    if found.dtype.itemsize != 8:
        raise ArgumentError(f"peal.{call}: signal is {found.dtype}; a signal has 8 bytes, uint64 or int64")
    return found, Signal(found.address, arguments.bits(call, found, value), arguments.number(call, "pe", pe),
                         arguments.chosen(call, "op", op, SIGNALS))


def put_signal(dst: Any, src: Any, pe: int, signal: Word, value: int, op: str = "set", *,
               stream: Any = None, async_op: bool = False) -> Ticket | None:
    """put(), and behind it signal(): whoever sees the signal sees the data."""
    here = current("put_signal")
    to, from_ = arguments.buffer("put_signal", "dst", dst), arguments.buffer("put_signal", "src", src)
    arguments.require_alike("put_signal", to, from_)
    at, what = _signal("put_signal", signal, value, pe, op)
    return here.make_short("put_signal", "put_signal", to.address, from_.address, to.nbytes, what, stream=stream, async_op=async_op,
                           keep=(to, from_, at))


def signal(word: Word, value: int, pe: int, op: str = "set", *, stream: Any = None,
           async_op: bool = False) -> Ticket | None:
    """Sets the 8-byte `word` of PE `pe`, or adds `value` to it (op="add"). Whoever sees it sees what this PE had put
    there before."""
    here = current("signal")
    at, what = _signal("signal", word, value, pe, op)
    return here.make_short("signal", "signal", what, stream=stream, async_op=async_op, keep=(at,))


def _wait(call, streams, found, compare, bits):
    # On a stream that no other wait uses: what other threads call meanwhile does not come behind the wait.
    try:
        stream = streams.pop()
    except IndexError:
        stream = answer(call, "stream_create")
    try:
        must(call, "wait_until_on_stream", found.address, TYPES[found.dtype.name], compare, bits, stream)
        must(call, "stream_synchronize", stream)
    finally:
        streams.append(stream)
    must(call, "check")


def signal_wait(word: Word, value: int, compare: str = ">=", *, stream: Any = None) -> int | None:
    """Waits until `word` of this PE compares so (">=", "==", "!=", ">", "<=", "<") with `value`; answers what it is. On a
    GPU the stream waits, and nothing is answered.

    Ctrl-C and signals' handlers may end the wait. Raises Error after PEAL_TIMEOUT, and when a PE was lost or aborts."""
    here = current("signal_wait")
    found = arguments.word("signal_wait", "word", word)
    how = arguments.chosen("signal_wait", "compare", compare, COMPARISONS)
    if here.device.is_gpu:
        here.make("signal_wait", "wait_until", found.address, TYPES[found.dtype.name], how,
                  arguments.bits("signal_wait", found, value), stream=stream)
        return None
    require_none("signal_wait", stream)
    here.caller.run(_wait, "signal_wait", here.streams, found, how, arguments.bits("signal_wait", found, value))
    return (word if not isinstance(word, Array) else word.numpy()).reshape(-1)[0].item()


wait_until = signal_wait


def _atomic(call, what, word, value, pe, stream, async_op):
    here = current(call)
    found = arguments.word(call, "word", word)
    return here.make_short(call, "atomic", ATOMICS[what], found.address, arguments.bits(call, found, value), found.dtype.itemsize,
                           arguments.number(call, "pe", pe), stream=stream, async_op=async_op, keep=(found,))


def _fetching(call, what, word, value, pe, stream, expected=0):
    here = current(call)
    found = arguments.word(call, "word", word)
    wide = found.dtype.itemsize == 8
    old = (ctypes.c_uint64 if wide else ctypes.c_uint32)()
    here.synchronize(call, stream)
    here.run_short(must, call, "atomic_fetching" if wide else "atomic_fetching32", ATOMICS[what], found.address,
                   arguments.bits(call, found, value), arguments.bits(call, found, expected),
                   arguments.number(call, "pe", pe), ctypes.byref(old))
    return arguments.of_bits(found, old.value)


def atomic_set(word: Word, value: int, pe: int, *, stream: Any = None, async_op: bool = False) -> Ticket | None:
    """Sets a word of PE `pe`. It has happened there after quiet() or barrier()."""
    return _atomic("atomic_set", "set", word, value, pe, stream, async_op)


def atomic_add(word: Word, value: int, pe: int, *, stream: Any = None, async_op: bool = False) -> Ticket | None:
    """Adds to a word of PE `pe`. It has happened there after quiet() or barrier()."""
    return _atomic("atomic_add", "add", word, value, pe, stream, async_op)


def atomic_fetch(word: Word, pe: int, *, stream: Any = None) -> int:
    """What a word of PE `pe` is."""
    return _fetching("atomic_fetch", "fetch", word, 0, pe, stream)


def atomic_swap(word: Word, value: int, pe: int, *, stream: Any = None) -> int:
    """Sets a word of PE `pe`; answers what it was."""
    return _fetching("atomic_swap", "swap", word, value, pe, stream)


def atomic_compare_swap(word: Word, expected: int, desired: int, pe: int, *, stream: Any = None) -> int:
    """Sets a word of PE `pe` to `desired` if it is `expected`; answers what it was."""
    return _fetching("atomic_compare_swap", "compare_swap", word, desired, pe, stream, expected)


def atomic_fetch_add(word: Word, value: int, pe: int, *, stream: Any = None) -> int:
    """Adds to a word of PE `pe`; answers what it was."""
    return _fetching("atomic_fetch_add", "add", word, value, pe, stream)


def atomic_fetch_and(word: Word, value: int, pe: int, *, stream: Any = None) -> int:
    """Ands a word of PE `pe`; answers what it was."""
    return _fetching("atomic_fetch_and", "and", word, value, pe, stream)


def atomic_fetch_or(word: Word, value: int, pe: int, *, stream: Any = None) -> int:
    """Ors a word of PE `pe`; answers what it was."""
    return _fetching("atomic_fetch_or", "or", word, value, pe, stream)


def atomic_fetch_xor(word: Word, value: int, pe: int, *, stream: Any = None) -> int:
    """Xors a word of PE `pe`; answers what it was."""
    return _fetching("atomic_fetch_xor", "xor", word, value, pe, stream)


def fence(*, stream: Any = None) -> None:
    """What this PE has put to a PE arrives there before what it puts there next."""
    current("fence").make_short("fence", "fence", stream=stream)


def quiet(*, stream: Any = None, async_op: bool = False) -> Ticket | None:
    """Done when all that this PE has put has arrived."""
    return current("quiet").make("quiet", "quiet", stream=stream, async_op=async_op)


def barrier(*, stream: Any = None, async_op: bool = False) -> Ticket | None:
    """Collective: done when all PEs have called it, and what they had put has arrived."""
    return current("barrier").make("barrier", "barrier_all", stream=stream, async_op=async_op)


def synchronize(stream: Any = None) -> None:
    """Returns when what `stream`, or the current one, was given is done, on a CPU when calls with async_op=True are; raises
    Error for what went wrong in it, or before in any stream."""
    here = current("synchronize")
    here.synchronize("synchronize", stream)
    if not here.device.is_gpu:
        here.caller.run(must, "synchronize", "stream_synchronize", here.own_stream)
    here.caller.directly(must, "synchronize", "check")


def check() -> None:
    """Raises Error for the first thing that went wrong in calls and kernels of this PE, if it has ended already."""
    current("check").caller.directly(must, "check", "check")


def register(array: Any) -> None:
    """Collective: memory of each PE's own becomes symmetric, of one size everywhere; calls name it by this PE's array. On a
    GPU tensors of torch may be registered again at each use: what is registered is found, and ends after torch has freed
    the memory. `array` has to stay as long."""
    found, here = arguments.buffer("register", "array", array, written=True), current("register")
    name = "register_window_cached" if here.device.is_gpu else "register_window"
    here.make_now("register", name, found.address, found.nbytes)


def unregister(array: Any) -> None:
    """Collective: ends register() of the same memory, which no transfer may be under way to."""
    found = arguments.buffer("unregister", "array", array)
    current("unregister").make_now("unregister", "unregister_window", found.address)


def register_local(array: Any) -> None:
    """Makes memory of this PE known to the NIC: `src` of put() and `dst` of get() that is not symmetric and has more
    than 1 KiB. `array` has to stay as long. Not collective."""
    found = arguments.buffer("register_local", "array", array)
    here = current("register_local")
    name = "register_local_cached" if here.device.is_gpu else "register_local"
    here.caller.run_short(must, "register_local", name, found.address, found.nbytes)


def unregister_local(array: Any) -> None:
    """Ends register_local() of the same memory."""
    found = arguments.buffer("unregister_local", "array", array)
    current("unregister_local").caller.run_short(must, "unregister_local", "unregister_local", found.address)
