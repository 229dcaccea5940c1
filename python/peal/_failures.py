# SPDX-License-Identifier: Apache-2.0
"""What went wrong first on this PE, and what its kernels have done (docs/errors.md, docs/debugging.md).

Any thread may ask, also while others wait."""
from __future__ import annotations

import ctypes
import dataclasses
from typing import Mapping

from peal import _library
from peal._job import current
from peal._library import must

_int, _u64, _u8, _text = ctypes.c_int, ctypes.c_uint64, ctypes.c_uint8, ctypes.c_char_p


class _Failure(ctypes.Structure):
    """peal_failure_t"""

    _fields_ = [("status", _int), ("status_name", _text), ("pe", _int), ("context", _int), ("queue", _int), ("wqe_index", _u64),
                ("opcode", _u8), ("syndrome", _u8), ("vendor_syndrome", _u8), ("time_ns", _u64), ("nic", _text), ("text", _text)]


class _CallCount(ctypes.Structure):
    """peal_call_count_t"""

    _fields_ = [("call", _text), ("calls", _u64), ("bytes", _u64), ("time_ns", _u64), ("timeouts", _u64), ("failed", _u64)]


class _Counters(ctypes.Structure):
    """peal_counters_t"""

    _fields_ = [("context", ctypes.c_uint), ("ran", _int), ("looks", _u64), ("posted_blocks", _u64), ("rung_blocks", _u64),
                ("completed_blocks", _u64), ("by_call", ctypes.POINTER(_CallCount)), ("call_count", ctypes.c_size_t)]


@dataclasses.dataclass(frozen=True)
class Failure:
    """The first failure of a PE. What it does not have is None, 0 or "".

    status         in the words of docs/errors.md: "timeout", "queue error", "peer lost", "aborted", ...
    pe             the peer concerned; of an abort the PE that called it
    context, queue  the context, by its slot, and the queue to that peer, where it is theirs
    wqe_index, opcode, syndrome, vendor_syndrome, nic  of a queue's error
    time_ns        on the clock of the kernels: CLOCK_MONOTONIC, or the GPU's globaltimer
    text           one sentence with all of it"""

    status: str
    pe: int | None
    context: int | None
    queue: int | None
    wqe_index: int
    opcode: int
    syndrome: int
    vendor_syndrome: int
    time_ns: int
    nic: str
    text: str


@dataclasses.dataclass(frozen=True)
class CallCount:
    """Calls of one name that have ended: how many, their bytes, nanoseconds in them, added up over lanes, how many ended
    by a timeout, and how many failed otherwise."""

    calls: int
    bytes: int
    time_ns: int
    timeouts: int
    failed: int


@dataclasses.dataclass(frozen=True)
class Counters:
    """What the kernels of one context have done since it was made. This package's calls are kernels, but for those that a
    stream makes as copies.

    context        its slot
    ran            False: no kernel that was compiled with the recorder (on a GPU -DPEAL_RECORD=1) has called
    by_call        a CallCount for each name of a call, such as "put", that was made
    looks          tests of words that did not see what they wanted
    posted_blocks, rung_blocks, completed_blocks  64-byte blocks of work requests of all queues; 0 without a NIC"""

    context: int
    ran: bool
    by_call: Mapping[str, CallCount]
    looks: int
    posted_blocks: int
    rung_blocks: int
    completed_blocks: int


def _number(value):
    return None if value < 0 else value


def failure() -> Failure | None:
    """The first failure of this PE, or None where all is well: what check() raises as a text, for programs. What follows
    from the end of a PE is told as "peer lost". Not collective; may be asked while other threads wait."""
    return current("failure").caller.directly(_failure, "failure")


def _failure(call):
    told = _Failure()
    must(call, "failure", ctypes.byref(told))
    if told.status == 0:
        return None
    return Failure(told.status_name.decode(), _number(told.pe), _number(told.context), _number(told.queue), told.wqe_index,
                   told.opcode, told.syndrome, told.vendor_syndrome, told.time_ns, told.nic.decode(errors="replace"),
                   _library.in_words(told.text.decode(errors="replace")))


def counters() -> list[Counters]:
    """What the kernels of this PE have done, by context. Empty unless the flight recorder is on (PEAL_RECORD=64). Calls that
    end meanwhile are counted in part. Not collective; may be asked while other threads wait."""
    return current("counters").caller.directly(_counters, "counters")


def _counters(call):
    first = ctypes.POINTER(_Counters)()
    count = _library.answer(call, "counters", ctypes.byref(first))
    return [Counters(one.context, bool(one.ran), {row.call.decode(): CallCount(row.calls, row.bytes, row.time_ns, row.timeouts, row.failed)
                                                  for row in one.by_call[:one.call_count]},
                     one.looks, one.posted_blocks, one.rung_blocks, one.completed_blocks) for one in first[:count]]
