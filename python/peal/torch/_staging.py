# SPDX-License-Identifier: Apache-2.0
"""Symmetric memory that operations copy to and from, for tensors that lie elsewhere."""
import math

import torch

from peal import _stream
from peal._job import current
from peal.errors import ArgumentError
from peal.torch._tensors import empty

_LEAST = 1 << 20  # bytes
_OF_SOME = {True: 64 << 20, False: 16 << 20}  # bytes for a group of fewer than all PEs, whether on a GPU


class Staging:
    """One pair of buffers, for the calls of one team, of which there is one at a time: they follow one another in one
    stream, or in several that events order. A new one's memory is collective among all PEs."""

    nbytes = property(lambda self: self._buffers[-1][0].numel())

    def __init__(self, call, nbytes=None):
        self._buffers = []  # pairs; the last is the largest. Graphs may have been made with the others
        self._add(_OF_SOME[current(call).device.is_gpu] if nbytes is None else nbytes)

    def _add(self, nbytes):
        self._buffers.append(tuple(empty(nbytes, dtype=torch.uint8) for _ in range(2)))

    def pair(self, src_shape, dst_shape, dtype):
        """Two tensors, at the same place on all PEs."""
        return (buffer[:math.prod(shape) * dtype.itemsize].view(dtype).view(shape)
                for buffer, shape in zip(self._buffers[-1], (src_shape, dst_shape)))

    def grow(self, nbytes):
        """Collective among all PEs."""
        self._add(max(_LEAST, 1 << (nbytes - 1).bit_length()))


def pair(call, group, src_shape, dst_shape, dtype):
    """Two tensors for a call of a Group's team, at the same place on all PEs. A group of all PEs gets more memory where more
    is wanted than before; of another one not all PEs are there, and it has what was set aside when its team was made."""
    wanted = max(math.prod(src_shape), math.prod(dst_shape)) * dtype.itemsize
    if group.staging is None or group.staging.nbytes < wanted:
        if not group.is_everyone:
            raise ArgumentError(f"peal.torch.{call}: {wanted} bytes, and group {group.name!r} has symmetric memory for "
                                f"{group.staging.nbytes}; call peal.torch.team(group, staging={wanted}) on all PEs before the group's "
                                "first use, or give a part of x at a time")
        if _stream.is_capturing(current(call).device):
            raise ArgumentError(f"peal.torch.{call}: the current stream captures a graph, and there is no symmetric memory for "
                                f"{wanted} bytes yet; make the call once before, with tensors as large")
        if group.staging is None:
            group.staging = Staging(call, _LEAST)
        if group.staging.nbytes < wanted:
            group.staging.grow(wanted)
    return group.staging.pair(src_shape, dst_shape, dtype)
