# SPDX-License-Identifier: Apache-2.0
"""peal for programs of PyTorch: symmetric tensors, torch.ops.peal, the backend "PEAL" of torch's symmetric memory, and layers
made of them. docs/torch.md has it all in a table."""
from __future__ import annotations

import warnings

import torch

if [int(number) for number in torch.__version__.split(".")[:2]] < [2, 8]:  # torch.library, torch's symmetric memory
    raise ImportError(f"peal.torch needs PyTorch 2.8 or newer; {torch.__file__} is {torch.__version__}: pip install torch")

import peal
from peal.errors import CompileError
from peal.torch import _arena, _extension, _groups, _ops, _symmetric_memory
from peal.torch._arena import reserve
from peal.torch._groups import team
from peal.torch._start import init
from peal.torch._tensors import empty, zeros
from peal.torch.moe import Dispatcher, Routing
from peal.torch.ring import Ring

all_reduce, all_to_all, broadcast = torch.ops.peal.all_reduce, torch.ops.peal.all_to_all, torch.ops.peal.broadcast
barrier, put, put_signal, signal_wait = torch.ops.peal.barrier, torch.ops.peal.put, torch.ops.peal.put_signal, torch.ops.peal.signal_wait


@torch.compiler.assume_constant_result
def _members(group: str) -> int:
    return _groups.of("all_gather", group).size


def all_gather(x: torch.Tensor, group: str = "") -> torch.Tensor:
    """torch.ops.peal.all_gather() of as many members as the group has."""
    return torch.ops.peal.all_gather(x, _members(group), group)


def reduce_scatter(x: torch.Tensor, op: str = "sum", group: str = "") -> torch.Tensor:
    """torch.ops.peal.reduce_scatter() of as many members as the group has."""
    return torch.ops.peal.reduce_scatter(x, _members(group), op, group)


def _register_backend():
    try:
        _symmetric_memory.register()
        _arena.watch(_extension.module())
    except (CompileError, peal.Error) as error:
        warnings.warn(f"{error}\nset_backend(\"PEAL\") will not find it; all else of peal.torch works", stacklevel=3)


_register_backend()

__all__ = [
    "Dispatcher", "Ring", "Routing", "all_gather", "all_reduce", "all_to_all", "barrier", "broadcast", "empty", "init", "put",
    "put_signal", "reduce_scatter", "reserve", "signal_wait", "team", "zeros",
]
