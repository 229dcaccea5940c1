# SPDX-License-Identifier: Apache-2.0
"""torch.ops.peal: operations of torch's own kind, for torch.compile, CUDA graphs and autograd.

Those that answer a tensor take and make ordinary ones, and copy by way of symmetric memory. Those that name remote memory
take symmetric tensors, which they say they change: so torch keeps them in order with what reads and writes the same
tensors. `group` is the name of a ProcessGroup; without it all PEs are meant."""
from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.fx.node import has_side_effect
from torch.library import custom_op

from peal import _collectives, _operations
from peal._job import current
from peal.errors import ArgumentError
from peal.torch import _groups, _staging


def _through(call, x, dst_shape, group, run):
    """run(dst, src, team) on symmetric memory, to which x is copied, and from which the result is."""
    if str(x.device) != str(current(call).device):
        raise ArgumentError(f"peal.torch.{call}: x is on {x.device}, and this job's arrays are on {current(call).device}; give one "
                            "that is there")
    found = _groups.of(call, group)
    team = _groups.team_of(found)
    src, dst = _staging.pair(call, found, x.shape, dst_shape, x.dtype)
    src.copy_(x.detach())
    run(dst, src, team)
    return dst.clone()


def _part(call, x, members):
    """The size of one of as many parts of dimension 0 as there are members."""
    if x.ndim == 0 or x.shape[0] % members:
        raise ArgumentError(f"peal.torch.{call}: x of shape {tuple(x.shape)}: its first dimension is no multiple of the group's "
                            f"{members} members")
    return x.shape[0] // members


def _gathered(x, members):
    if x.ndim == 0:
        raise ArgumentError("peal.torch.all_gather: x has no dimensions; give x.reshape(1)")
    return x.shape[0] * members, *x.shape[1:]


def _require_members(call, members, group):
    found = _groups.of(call, group).size
    if members != found:
        raise ArgumentError(f"peal.torch.{call}: members {members}: group {group!r} has {found}; give that number")


@custom_op("peal::all_reduce", mutates_args=())
def all_reduce(x: Tensor, op: str = "sum", group: str = "") -> Tensor:
    """All members' x, combined element by element by one of "sum", "product", "min", "max"; the same bits at all."""
    return _through("all_reduce", x, x.shape, group, lambda dst, src, team: _collectives.all_reduce(dst, src, op, team))


# `members` stands in compiled code, which torch keeps for later runs: with other sizes of the group it has to be other code.
@custom_op("peal::all_gather", mutates_args=())
def all_gather(x: Tensor, members: int, group: str = "") -> Tensor:
    """All members' x, one behind the other in dimension 0. `members`: how many the group has."""
    _require_members("all_gather", members, group)
    return _through("all_gather", x, _gathered(x, members), group, _collectives.all_gather)


@custom_op("peal::reduce_scatter", mutates_args=())
def reduce_scatter(x: Tensor, members: int, op: str = "sum", group: str = "") -> Tensor:
    """This member's part of dimension 0 of all members' x, combined. `members`: how many the group has."""
    _require_members("reduce_scatter", members, group)
    return _through("reduce_scatter", x, (_part("reduce_scatter", x, members), *x.shape[1:]), group,
                    lambda dst, src, team: _collectives.reduce_scatter(dst, src, op, team))


@custom_op("peal::all_to_all", mutates_args=())
def all_to_all(x: Tensor, group: str = "") -> Tensor:
    """Part i of dimension 0 goes to member i, and part j of the result comes from member j."""
    _part("all_to_all", x, _groups.of("all_to_all", group).size)
    return _through("all_to_all", x, x.shape, group, _collectives.all_to_all)


@custom_op("peal::broadcast", mutates_args=())
def broadcast(x: Tensor, root: int, group: str = "") -> Tensor:
    """The x of the member `root`."""
    return _through("broadcast", x, x.shape, group, lambda dst, src, team: _collectives.broadcast(dst, src, root, team))


@custom_op("peal::reduce_to", mutates_args=())
def reduce_to(x: Tensor, root: int, group: str = "") -> Tensor:
    """The sum of all members' x at the member `root`, zeros at the others: what broadcast's gradient is."""
    def run(dst, src, team):
        dst.zero_()
        _collectives.reduce(dst, src, "sum", root, team)
    return _through("reduce_to", x, x.shape, group, run)


def _like(x, *_, **__):
    return torch.empty_like(x, memory_format=torch.contiguous_format)


for one in all_reduce, all_to_all, broadcast, reduce_to:
    one.register_fake(_like)
all_gather.register_fake(lambda x, members, group="": x.new_empty(_gathered(x, members)))
reduce_scatter.register_fake(lambda x, members, op="sum", group="": x.new_empty(_part("reduce_scatter", x, members), *x.shape[1:]))
# Other members wait for a call whose result is of no use here.
for one in "all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "reduce_to":
    has_side_effect(getattr(torch.ops.peal, one).default)


def _keep(ctx, inputs, output):  # torch names them so
    ctx.arguments = inputs[1:]


def _require_sum(call, op):
    if op != "sum":
        raise ArgumentError(f"peal.torch.{call}: op {op!r} has no gradient; give \"sum\", or x.detach()")


def _backward_of_all_reduce(ctx, gradient):
    op, group = ctx.arguments
    _require_sum("all_reduce", op)
    return all_reduce(gradient, "sum", group), None, None


def _backward_of_reduce_scatter(ctx, gradient):
    members, op, group = ctx.arguments
    _require_sum("reduce_scatter", op)
    return all_gather(gradient, members, group), None, None, None


def _backward_of_all_gather(ctx, gradient):
    members, group = ctx.arguments
    return reduce_scatter(gradient, members, "sum", group), None, None


all_reduce.register_autograd(_backward_of_all_reduce, setup_context=_keep)
reduce_scatter.register_autograd(_backward_of_reduce_scatter, setup_context=_keep)
all_gather.register_autograd(_backward_of_all_gather, setup_context=_keep)
broadcast.register_autograd(lambda ctx, g: (reduce_to(g, *ctx.arguments), None, None), setup_context=_keep)
all_to_all.register_autograd(lambda ctx, g: (all_to_all(g, *ctx.arguments), None), setup_context=_keep)


def _require_symmetric(call, **tensors):
    """Raises for a tensor of other memory, such as a copy that a compiler has made of one."""
    pe = current(call)
    for name, tensor in tensors.items():
        if tensor.numel() and pe.pointer(call, tensor.data_ptr(), pe.my_pe) is None:
            raise ArgumentError(f"peal.torch.{call}: {name} of shape {tuple(tensor.shape)} is not in symmetric memory; give a tensor "
                                "of peal.torch.empty(), or a view of one")


@custom_op("peal::put", mutates_args={"dst"})
def put(dst: Tensor, src: Tensor, pe: int) -> None:
    """Copies `src` into the `dst` of a PE. `dst` is symmetric; `src`, where a NIC moves it, too, or register_local()ed."""
    _require_symmetric("put", dst=dst)
    _operations.put(dst, src.detach(), pe)


@custom_op("peal::put_signal", mutates_args={"dst", "signal"})
def put_signal(dst: Tensor, src: Tensor, pe: int, signal: Tensor, value: int, op: str = "set") -> None:
    """As put, and behind the data the word `signal` of that PE is set, or added to; it has 64 bits."""
    _require_symmetric("put_signal", dst=dst, signal=signal)
    _operations.put_signal(dst, src.detach(), pe, signal, value, op)


@custom_op("peal::signal_wait", mutates_args={"signal", "arriving"})
def signal_wait(signal: Tensor, value: int, arriving: Sequence[Tensor], compare: str = ">=") -> None:
    """Waits until this PE's word `signal` compares so with `value`. `arriving`: the tensors that others put before they
    signalled, which may be read behind this call."""
    _require_symmetric("signal_wait", signal=signal, **{f"arriving[{i}]": one for i, one in enumerate(arriving)})
    _operations.signal_wait(signal, value, compare)


@custom_op("peal::barrier", mutates_args={"tensors"})
def barrier(tensors: Sequence[Tensor]) -> None:
    """Done when all PEs have called it, and what they had put has arrived. `tensors`: those that others have put to, or will;
    without any a compiler may leave it out."""
    _require_symmetric("barrier", **{f"tensors[{i}]": one for i, one in enumerate(tensors)})
    _operations.barrier()
