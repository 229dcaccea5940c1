# SPDX-License-Identifier: Apache-2.0
"""Calls of all members of a team, with the same arguments, in the same order.

`dst` and `src` are symmetric: Arrays, or parts of them (y[2:4]) at the same place on all PEs. They may be the same
array; else they do not overlap. `team` is a Team, and without it all PEs. `op` is "sum", "product", "min", "max", and
for integers "and", "or", "xor". Counts, dtypes, operations and roots are compared before anything moves.

On a CPU a call is done here on return, and where members' arguments differ all raise ArgumentError. On a GPU it is done
in the order of `stream`, or of the current one, graphs may capture it, and check() or synchronize() raise that. With
`async_op=True` calls return at once on a CPU too, and answer a Ticket, whose wait() raises."""
from __future__ import annotations

from typing import Any

from peal import _arguments as arguments
from peal._job import current
from peal._library import OPERATIONS, TYPES, Blocks, Buffers
from peal._team import Team
from peal._ticket import Ticket


def _call(call, dst, src, team, how, parts, *more, computes=False):
    """`parts`: how many times the message to one member dst and src have, of a team of n. `how`: (stream, async_op)."""
    here = current(call)
    to, from_ = arguments.buffer(call, "dst", dst, written=True), arguments.buffer(call, "src", src)
    native, members = (here.world, here.n_pes) if team is None else (team._native(call), team.n_pes)
    of_dst, of_src = parts(members)
    arguments.require_alike(call, to, from_, of_dst, of_src)
    if computes:
        buffers = Buffers(to.address, from_.address, to.size // of_dst, arguments.type_of(call, "dst", to.dtype))
    else:
        buffers = Buffers(to.address, from_.address, to.nbytes // of_dst, TYPES["uint8"])
    if to.size % of_dst:
        raise arguments.ArgumentError(f"peal.{call}: {to.size} elements are no multiple of the team's {members} members")
    stream, async_op = how
    return here.make(call, call, native, buffers, *more, stream=stream, async_op=async_op, keep=(to, from_, team))


def _alike(_):
    return 1, 1


def _op(call, op):
    return arguments.chosen(call, "op", op, OPERATIONS)


def broadcast(dst: Any, src: Any, root: int, team: Team | None = None, *, stream: Any = None,
              async_op: bool = False) -> Ticket | None:
    """`src` of the member `root` comes to `dst` of all members, root's own too."""
    return _call("broadcast", dst, src, team, (stream, async_op), _alike, arguments.number("broadcast", "root", root))


def all_gather(dst: Any, src: Any, team: Team | None = None, *, stream: Any = None,
               async_op: bool = False) -> Ticket | None:
    """`src` of all n members, one behind the other, comes to `dst` of each, which has n times as many elements."""
    return _call("all_gather", dst, src, team, (stream, async_op), lambda n: (n, 1))


def all_to_all(dst: Any, src: Any, team: Team | None = None, *, stream: Any = None,
               async_op: bool = False) -> Ticket | None:
    """Part i of `src` comes to member i, as part j of its `dst`, j being this member. Both have n parts."""
    return _call("all_to_all", dst, src, team, (stream, async_op), lambda n: (n, n))


def _blocks(name, given, members):
    """peal_blocks_t of (counts, displacements), and what keeps them there."""
    call = "all_to_all_v"
    if not isinstance(given, (tuple, list)) or len(given) != 2:
        raise arguments.ArgumentError(f"peal.{call}: {name} {given!r}: give (counts, displacements)")
    parts = dict(zip((f"{name}'s counts", f"{name}'s displacements"), given))
    found = [arguments.buffer(call, which, part) for which, part in parts.items()]
    for which, one in zip(parts, found):
        if one.dtype.name != "int64" or one.size != members:
            raise arguments.ArgumentError(f"peal.{call}: {which} has {one.size} elements of {one.dtype}; give one int64 for each "
                                          f"of {members} members")
    return Blocks(*(one.address for one in found)), found


def all_to_all_v(dst: Any, src: Any, received: tuple[Any, Any], sent: tuple[Any, Any], team: Team | None = None, *,
                 stream: Any = None, async_op: bool = False) -> Ticket | None:
    """From each member to each a block of its own length. `sent` is (counts, displacements), two arrays with an int64 for
    each member, in elements: how much of `src` goes to it, and where it begins. `received` says of `dst` how much comes
    from it, and where that goes; its arrays are symmetric. All four are read when the call is done, not when it is made.

    What one member sends and the other expects has to be the same: else both raise Error, on a GPU in check(), and so do
    their later calls."""
    call = "all_to_all_v"
    here = current(call)
    to, from_ = arguments.buffer(call, "dst", dst, written=True), arguments.buffer(call, "src", src)
    bits = TYPES.get(f"uint{8 * to.dtype.itemsize}")
    if to.dtype != from_.dtype or bits is None:
        raise arguments.ArgumentError(f"peal.{call}: dst has dtype {to.dtype}, src {from_.dtype}; give both the same, of 1, 2, 4 "
                                      "or 8 bytes")
    native, members = (here.world, here.n_pes) if team is None else (team._native(call), team.n_pes)
    (into, to_lists), (out, from_lists) = _blocks("received", received, members), _blocks("sent", sent, members)
    buffers = Buffers(to.address, from_.address, 1, bits)
    return here.make(call, call, native, buffers, into, out, stream=stream, async_op=async_op,
                     keep=(to, from_, team, to_lists, from_lists))


def all_reduce(dst: Any, src: Any, op: str, team: Team | None = None, *, stream: Any = None,
               async_op: bool = False) -> Ticket | None:
    """`src` of all members, combined element by element, comes to `dst` of each: the same bits at all members."""
    return _call("all_reduce", dst, src, team, (stream, async_op), _alike, _op("all_reduce", op), computes=True)


def reduce(dst: Any, src: Any, op: str, root: int, team: Team | None = None, *, stream: Any = None,
           async_op: bool = False) -> Ticket | None:
    """The same to `dst` of the member `root` alone."""
    return _call("reduce", dst, src, team, (stream, async_op), _alike, _op("reduce", op), arguments.number("reduce", "root", root),
                 computes=True)


def reduce_scatter(dst: Any, src: Any, op: str, team: Team | None = None, *, stream: Any = None,
                   async_op: bool = False) -> Ticket | None:
    """Part i of all members' `src`, combined, comes to `dst` of member i. `src` has n times as many elements."""
    return _call("reduce_scatter", dst, src, team, (stream, async_op), lambda n: (1, n), _op("reduce_scatter", op), computes=True)


def scan(dst: Any, src: Any, op: str, team: Team | None = None, *, stream: Any = None,
         async_op: bool = False) -> Ticket | None:
    """`dst` of member i is `src` of the members 0 to i, combined."""
    return _call("scan", dst, src, team, (stream, async_op), _alike, _op("scan", op), computes=True)


def exclusive_scan(dst: Any, src: Any, op: str, team: Team | None = None, *, stream: Any = None,
                   async_op: bool = False) -> Ticket | None:
    """`dst` of member i is `src` of the members before i, combined; of member 0 it stays as it is."""
    return _call("exclusive_scan", dst, src, team, (stream, async_op), _alike, _op("exclusive_scan", op), computes=True)
