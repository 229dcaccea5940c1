# SPDX-License-Identifier: Apache-2.0
"""Symmetric arrays as tensors."""
from __future__ import annotations

from typing import Sequence

import torch

import peal


def _made(make, shape, dtype):
    sizes = tuple(shape[0]) if len(shape) == 1 and not isinstance(shape[0], int) else shape
    return torch.from_dlpack(make(sizes, dtype or torch.get_default_dtype()))


def empty(*shape: int | Sequence[int], dtype: torch.dtype | None = None) -> torch.Tensor:
    """A symmetric tensor with undefined values, where the job's arrays lie. Collective, as peal.empty() is."""
    return _made(peal.empty, shape, dtype)


def zeros(*shape: int | Sequence[int], dtype: torch.dtype | None = None) -> torch.Tensor:
    """As empty(), filled with 0."""
    return _made(peal.zeros, shape, dtype)
