# SPDX-License-Identifier: Apache-2.0
"""peal: one-sided communication between the processes (PEs) of a job, on symmetric arrays.

    import numpy as np, peal
    with peal.job():
        x = peal.full(1000, peal.my_pe() + 1, np.float32)
        y = peal.zeros(1000, np.float32)
        peal.all_reduce(y, x, "sum")
        print(np.from_dlpack(y)[0])           # peal-run -n 4 python example.py

An array lies at every PE; its memory at PE 3 is named by this PE's own array and the number 3. Collective calls are
made by all PEs in the same order. What fails raises peal.Error. docs/python.md has it all in a table."""
from peal import _library
from peal._array import Array, empty, full, zeros
from peal._collectives import (
    all_gather, all_reduce, all_to_all, all_to_all_v, broadcast, exclusive_scan, reduce, reduce_scatter, scan,
)
from peal._failures import CallCount, Counters, Failure, counters, failure
from peal._job import abort, current, finalize, init, job, rejoin
from peal._kernel import Kernel, kernel
from peal._kernel_arguments import Context, context
from peal._operations import (
    atomic_add, atomic_compare_swap, atomic_fetch, atomic_fetch_add, atomic_fetch_and, atomic_fetch_or,
    atomic_fetch_xor, atomic_set, atomic_swap, barrier, check, fence, get, put, put_signal, quiet, register,
    register_local, signal, signal_wait, synchronize, unregister, unregister_local, wait_until,
)
from peal._storage import load, load_checkpoint, save, save_checkpoint
from peal._team import Team, world
from peal._ticket import Ticket
from peal.errors import ArgumentError, CompileError, Error, PeerLostError


def my_pe() -> int:
    """This PE's number, 0 to n_pes() - 1."""
    return current("my_pe").my_pe


def n_pes() -> int:
    """Number of PEs of the job."""
    return current("n_pes").n_pes


def epoch() -> int:
    """How often the job was rejoined, the same on all PEs: 0 from its start on, more after each rejoin(). A new process
    learns it from the others."""
    return current("epoch").epoch


def device() -> str:
    """Where arrays of this PE lie: "cpu", or "cuda:0"; torch.cuda.set_device() takes it."""
    return str(current("device").device)


def dump() -> str:
    """For a person who asks why nothing moves: what the PEs of this host wait for, circles in that, and where every
    queue stands. To be called by another thread while one waits; waits a second at most for PEs that do not answer."""
    return current("dump").caller.directly(_library.dump)


def collect() -> int:
    """Collective: gives back the arrays that all PEs have dropped, and answers how many; allocations do the same."""
    return current("collect").heap.collect()


__all__ = [
    "ArgumentError", "Array", "CallCount", "CompileError", "Context", "Counters", "Error", "Failure", "Kernel",
    "PeerLostError", "Team", "Ticket", "abort", "all_gather", "all_reduce", "all_to_all", "all_to_all_v", "atomic_add",
    "atomic_compare_swap", "atomic_fetch", "atomic_fetch_add", "atomic_fetch_and", "atomic_fetch_or",
    "atomic_fetch_xor", "atomic_set", "atomic_swap", "barrier", "broadcast", "check", "collect", "context",
    "counters", "device", "dump", "empty", "epoch", "exclusive_scan", "failure", "fence", "finalize", "full", "get",
    "init", "job", "kernel", "load", "load_checkpoint", "my_pe", "n_pes", "put", "put_signal", "quiet", "reduce",
    "reduce_scatter", "register", "register_local", "rejoin", "save", "save_checkpoint", "scan", "signal", "signal_wait",
    "synchronize", "unregister", "unregister_local", "wait_until", "world", "zeros",
]
