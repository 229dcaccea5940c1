# SPDX-License-Identifier: Apache-2.0
"""Tokens of a mixture of experts to the PEs of their experts, and back, for autograd and CUDA graphs.

    dispatcher = peal.torch.Dispatcher(max_tokens, hidden, n_experts, top_k, torch.bfloat16)
    routing = dispatcher.route(experts)              # [tokens, top_k], an expert each
    x = dispatcher.dispatch(tokens, routing)         # [capacity, hidden], by expert: routing.per_expert rows of each
    y = dispatcher.combine(experts_of_this_pe(x, routing.per_expert), weights, routing)

Nothing of it waits for the host: how many rows come from whom stays on the GPU."""
from __future__ import annotations

import dataclasses
from typing import Any

import torch
from torch import Tensor

from peal import _arguments as arguments
from peal import _collectives
from peal._job import current
from peal.errors import ArgumentError
from peal.torch import _groups
from peal.torch._tensors import empty, zeros


@dataclasses.dataclass
class Routing:
    """Where the rows of one batch go. All tensors are int64, where the tokens are.

    per_expert  [experts of this PE]   rows that come for each of them, in this order in what dispatch() answers
    total       []                     their sum; rows of dispatch() behind it are zero"""

    per_expert: Tensor
    total: Tensor
    _blocks: Tensor  # [4, members]: what goes to each, counts and displacements in elements; what comes from each
    _tokens: Tensor  # [tokens * top_k]: whose row is at which place in the sender's memory
    _slots: Tensor  # the same, (token, choice) as one number
    _places: Tensor  # [tokens * top_k]: the other way
    _order: Tensor  # [capacity]: which row of the receiver's memory is which of dispatch()'s; behind all rows: none


class Dispatcher:
    """The symmetric memory for batches of up to `max_tokens` tokens of `hidden` elements at each member of `group`, whose
    member i has the experts i * n / members and following. `capacity`: rows that this PE takes in at most, the same at all
    members; without it as many as may come. Where more come, members raise Error, in check() on a GPU, and so do their later
    calls. Collective among all PEs: of groups of some each makes one for its own.

    One batch is under way at a time; forward and backward follow one another in one stream."""

    def __init__(self, max_tokens: int, hidden: int, n_experts: int, top_k: int, dtype: torch.dtype, group: Any = None,
                 capacity: int | None = None):
        call = "Dispatcher"
        members = _groups.of(call, group).size
        for name, value in {"max_tokens": max_tokens, "hidden": hidden, "n_experts": n_experts, "top_k": top_k}.items():
            arguments.number(call, name, value, low=1)
        if n_experts % members:
            raise ArgumentError(f"peal.torch.{call}: n_experts {n_experts} is no multiple of the group's {members} members")
        self._team, self._members, self._of_pe = _groups.team(group), members, n_experts // members
        self.max_tokens, self.hidden, self.n_experts, self.top_k, self.dtype = max_tokens, hidden, n_experts, top_k, dtype
        rows = max_tokens * top_k
        self.capacity = members * rows if capacity is None else arguments.number(call, "capacity", capacity, low=1)
        self._near = zeros(rows + 1, hidden, dtype=dtype)  # of this PE's tokens; the last row stays zero
        self._far = zeros(self.capacity + 1, hidden, dtype=dtype)  # of this PE's experts; the last row stays zero
        self._counts = [empty(n_experts, dtype=torch.int64) for _ in range(2)]
        self._blocks = empty(4, members, dtype=torch.int64)  # of the Routing that is under way
        self._of_near, self._of_far = tuple(self._blocks[:2]), tuple(self._blocks[2:])
        self._positions = torch.arange(self.capacity, device=self._near.device)
        self._positions_near = torch.arange(rows, device=self._near.device)
        self._edges = torch.arange(n_experts + 1, device=self._near.device)

    def route(self, experts: Tensor) -> Routing:
        """Where tokens go whose choices are `experts`: [tokens, top_k]. A number of no expert, such as -1, leaves a choice out:
        its row is zero in combine(). Collective."""
        if experts.ndim != 2 or experts.shape[1] != self.top_k or experts.shape[0] > self.max_tokens:
            raise ArgumentError(f"peal.torch.Dispatcher.route: experts has shape {tuple(experts.shape)}; give [tokens, {self.top_k}] "
                                f"with up to {self.max_tokens} tokens")
        chosen, slots = experts.reshape(-1).to(torch.int64).sort(stable=True)
        ends = torch.searchsorted(chosen, self._edges)
        at = self._positions_near[:slots.numel()]
        left_out = (at < ends[0]) | (at >= ends[-1])
        places = torch.empty_like(slots).scatter_(0, slots, at.masked_fill(left_out, self._near.shape[0] - 1))
        sent, received = self._exchange_counts(ends.diff())
        # Rows lie by (member, expert) where they arrive, and are wanted by (expert, member).
        flat, cells = received.view(-1), received.t().reshape(-1)
        starts, until = (flat.cumsum(0) - flat).view_as(received).t().reshape(-1), cells.cumsum(0)
        cell = torch.searchsorted(until, self._positions, right=True).clamp_(max=cells.numel() - 1)
        order = (starts - until + cells)[cell] + self._positions
        total = until[-1]
        order = torch.where(self._positions < total, order, self.capacity).clamp_(max=self.capacity)  # where too many come
        counts = torch.stack((sent, received)).sum(2)
        behind = counts.cumsum(1)
        fits = torch.where(behind[1] <= self.capacity, counts[1], 0)  # else it is not what is sent: both members hear so
        blocks = torch.stack((counts[0], ends[0] + behind[0] - counts[0], fits, behind[1] - counts[1])).mul_(self.hidden)
        return Routing(received.sum(0), total, blocks, slots // self.top_k, slots, places, order)

    def _exchange_counts(self, counts):
        """Rows for each expert to each member; from each member for each expert here. Both [members, experts of a PE]."""
        mine, theirs = self._counts
        mine.copy_(counts)
        _collectives.all_to_all(theirs, mine, self._team)
        return counts.view(self._members, self._of_pe), theirs.clone().view(self._members, self._of_pe)

    def dispatch(self, tokens: Tensor, routing: Routing) -> Tensor:
        """The rows for this PE's experts: [capacity, hidden], by expert, then by member, then as the member had them.
        Collective; so is its backward."""
        if tokens.ndim != 2 or tokens.shape[1] != self.hidden or tokens.shape[0] * self.top_k != routing._slots.numel():
            raise ArgumentError(f"peal.torch.Dispatcher.dispatch: tokens has shape {tuple(tokens.shape)}; give "
                                f"[{routing._slots.numel() // self.top_k}, {self.hidden}], as the routing has")
        self._require_dtype("dispatch", tokens)
        return _Dispatch.apply(tokens, self, routing)

    def combine(self, rows: Tensor, weights: Tensor, routing: Routing) -> Tensor:
        """Brings rows as dispatch() gave them back to their tokens: [tokens, hidden], the sum over a token's choices, each
        times its weight; `weights` is [tokens, top_k]. Collective; so is its backward."""
        if tuple(rows.shape) != (self.capacity, self.hidden):
            raise ArgumentError(f"peal.torch.Dispatcher.combine: rows has shape {tuple(rows.shape)}; give "
                                f"[{self.capacity}, {self.hidden}], as dispatch() does")
        self._require_dtype("combine", rows)
        back = _Combine.apply(rows, self, routing)
        return torch.bmm(weights.to(self.dtype).unsqueeze(1), back).squeeze(1)

    def _require_dtype(self, call, tensor):
        if tensor.dtype != self.dtype or tensor.device != self._near.device:
            raise ArgumentError(f"peal.torch.Dispatcher.{call}: a tensor of {tensor.dtype} on {tensor.device}; this Dispatcher has "
                                f"{self.dtype} on {self._near.device}")

    def _move(self, routing, forth):
        self._blocks.copy_(routing._blocks)
        if forth:
            _collectives.all_to_all_v(self._far[:-1], self._near[:-1], self._of_far, self._of_near, self._team)
        else:
            _collectives.all_to_all_v(self._near[:-1], self._far[:-1], self._of_near, self._of_far, self._team)

    def _forth(self, rows, index, routing):
        """rows[index] are sent; answers what came, by expert."""
        torch.index_select(rows, 0, index, out=self._near[:index.numel()])
        self._move(routing, forth=True)
        return self._far.index_select(0, routing._order)

    def _back(self, rows, routing):
        """The other way: [tokens, top_k, hidden]."""
        self._far.index_copy_(0, routing._order, rows)
        self._far[-1:].zero_()  # took what belongs to no row
        self._move(routing, forth=False)
        return self._near.index_select(0, routing._places).view(-1, self.top_k, self.hidden)


class _Dispatch(torch.autograd.Function):
    @staticmethod
    def forward(context, tokens, dispatcher, routing):
        context.dispatcher, context.routing = dispatcher, routing
        return dispatcher._forth(tokens, routing._tokens, routing)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(context, gradient):
        return context.dispatcher._back(gradient, context.routing).sum(1), None, None


class _Combine(torch.autograd.Function):
    @staticmethod
    def forward(context, rows, dispatcher, routing):
        context.dispatcher, context.routing = dispatcher, routing
        return dispatcher._back(rows, routing)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(context, gradient):
        rows = gradient.reshape(-1, context.dispatcher.hidden)
        return context.dispatcher._forth(rows, context.routing._slots, context.routing), None, None
