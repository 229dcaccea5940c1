# SPDX-License-Identifier: Apache-2.0
"""Symmetric memory that operations copy to and from, for tensors that lie elsewhere."""
import math

import torch

from peal import _stream
from peal._job import current
from peal.errors import ArgumentError
from peal.torch._tensors import empty

_LEAST = 1 << 20  # bytes


class Staging:
    """One pair of buffers, for the calls of one team, of which there is one at a time: they follow one another in one
    stream, or in several that events order."""

    def __init__(self):
        self._buffers = []  # pairs; the last is the largest. Graphs may have been made with the others

    def pair(self, call, src_shape, dst_shape, dtype):
        """Two tensors, at the same place on all PEs. Collective among all PEs where more memory is wanted than before."""
        wanted = max(math.prod(src_shape), math.prod(dst_shape)) * dtype.itemsize
        if not self._buffers or self._buffers[-1][0].numel() < wanted:
            self._grow(call, wanted)
        return (buffer[:math.prod(shape) * dtype.itemsize].view(dtype).view(shape)
                for buffer, shape in zip(self._buffers[-1], (src_shape, dst_shape)))

    def _grow(self, call, wanted):
        if _stream.is_capturing(current(call).device):
            raise ArgumentError(f"peal.torch.{call}: the current stream captures a graph, and there is no symmetric memory for "
                                f"{wanted} bytes yet; make the call once before, with tensors as large")
        size = max(_LEAST, 1 << (wanted - 1).bit_length())
        self._buffers.append(tuple(empty(size, dtype=torch.uint8) for _ in range(2)))


def of_group(group):
    """The Staging of a Group's team."""
    group.staging = group.staging or Staging()
    return group.staging
