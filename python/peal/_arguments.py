# SPDX-License-Identifier: Apache-2.0
"""Arguments of calls: what they may be, and the errors for what they may not."""
import math
import operator
import sys

import numpy as np

from peal import _dlpack, _dtypes
from peal._array import Array
from peal._job import current
from peal._library import TYPES
from peal.errors import ArgumentError


class Buffer:
    """Where an argument's elements lie. `owner` keeps them there."""

    __slots__ = ("address", "dtype", "nbytes", "owner", "size")

    def __init__(self, address, dtype, size, nbytes, owner):
        self.address, self.dtype, self.size, self.nbytes, self.owner = address, dtype, size, nbytes, owner


def buffer(call, name, value, written=False):
    """The Buffer of an Array, or of what lies where those of this job do: arrays of numpy's, tensors by DLPack."""
    if isinstance(value, Array):
        value._require(call)
        return Buffer(value.address, value.dtype, value.size, value.nbytes, value)
    device = current(call).device
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        return _of_tensor(call, name, value, device)
    if device.is_gpu:
        return _of_capsule(call, name, value, device)
    return _of_numpy(call, name, value, written)


def _of_numpy(call, name, value, written):
    if isinstance(value, np.ndarray):
        array = value
    elif hasattr(value, "__dlpack__"):
        try:
            array = np.from_dlpack(value)
        except (BufferError, RuntimeError, TypeError, ValueError) as error:
            raise ArgumentError(f"peal.{call}: {name}: {error}; give a tensor of a CPU that needs no gradient") from None
    else:
        raise ArgumentError(f"peal.{call}: {name} is a {type(value).__name__}; give a peal.Array, an array of numpy's or a "
                            "tensor with __dlpack__")
    if not array.flags.c_contiguous:
        _refuse_strides(call, name, array.shape, array.strides)
    if written and not array.flags.writeable and isinstance(value, np.ndarray):
        raise ArgumentError(f"peal.{call}: {name} is read-only; give an array that may be written")
    return Buffer(array.ctypes.data, array.dtype, array.size, array.nbytes, array)


def _refuse_strides(call, name, shape, strides):
    raise ArgumentError(f"peal.{call}: {name} of shape {tuple(shape)} has strides {tuple(strides)}: not contiguous; give a "
                        "contiguous part, or put its rows one by one")


def _refuse_place(call, name, place, device):
    raise ArgumentError(f"peal.{call}: {name} is on {place}, and this job's arrays are on {device}; give one that is there")


def _of_tensor(call, name, tensor, device):
    """torch's tensors, without the detour by DLPack, which takes longer than the rest of a call."""
    place = str(tensor.device)
    if place != str(device):
        _refuse_place(call, name, place, device)
    if tensor.requires_grad:
        raise ArgumentError(f"peal.{call}: {name} needs a gradient, which calls do not see; give {name}.detach()")
    if not tensor.is_contiguous() or tensor.is_conj() or tensor.is_neg():
        _refuse_strides(call, name, tensor.shape, tensor.stride())
    size, dtype = tensor.numel(), _dtypes.of_torch(tensor.dtype)
    return Buffer(tensor.data_ptr(), dtype, size, size * dtype.itemsize, tensor)


def _of_capsule(call, name, value, device):
    if isinstance(value, np.ndarray) or not hasattr(value, "__dlpack__"):
        kind = "an array of numpy's" if isinstance(value, np.ndarray) else f"a {type(value).__name__}"
        raise ArgumentError(f"peal.{call}: {name} is {kind}; give a peal.Array or a tensor on {device}")
    if tuple(value.__dlpack_device__()) != device.dlpack:
        _refuse_place(call, name, "DLPack's device {} {}".format(*map(int, value.__dlpack_device__())), device)
    try:
        view = _dlpack.View(value.__dlpack__(stream=-1))  # calls are ordered by the stream that they are given
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise ArgumentError(f"peal.{call}: {name}: {error}") from None
    if view.dtype is None:
        raise ArgumentError(f"peal.{call}: {name} has elements that neither numpy nor peal knows; give a view of it as bytes")
    if not view.contiguous:
        _refuse_strides(call, name, view.shape, view.strides)
    size = math.prod(view.shape)
    return Buffer(view.address, view.dtype, size, size * view.dtype.itemsize, value)


def type_of(call, name, dtype):
    """peal_type_t of a dtype, for calls that compute."""
    found = TYPES.get(_dtypes.name_of(dtype))
    if found is None or not dtype.isnative:
        raise ArgumentError(f"peal.{call}: {name} has dtype {_dtypes.name_of(dtype)}; this call takes {', '.join(TYPES)}, in native order")
    return found


def require_alike(call, dst, src, times_dst=1, times_src=1):
    """dst has `times_dst` elements where src has `times_src`, of one dtype."""
    if dst.dtype != src.dtype:
        raise ArgumentError(f"peal.{call}: dst has dtype {dst.dtype}, src {src.dtype}; give both the same")
    if dst.size * times_src != src.size * times_dst:
        wanted = src.size * times_dst / times_src
        raise ArgumentError(f"peal.{call}: dst has {dst.size} elements, src {src.size}; this call wants {wanted:g} in dst")


def chosen(call, name, value, table):
    """The number of one of the words in `table`."""
    found = table.get(value) if isinstance(value, str) else None
    if found is None:
        raise ArgumentError(f"peal.{call}: {name} {value!r}: give one of {', '.join(map(repr, table))}")
    return found


def number(call, name, value, low=-(1 << 31), high=(1 << 31) - 1):
    """A value as an int of Python's, which C's holds."""
    given = _whole(call, name, value)
    if not low <= given <= high:
        raise ArgumentError(f"peal.{call}: {name} {given}: give a number from {low} to {high}")
    return given


def _whole(call, name, value):
    try:
        return operator.index(value)
    except TypeError:
        raise ArgumentError(f"peal.{call}: {name} {value!r}: give a whole number") from None


def word(call, name, value):
    """A Buffer of one integer of 4 or 8 bytes."""
    found = buffer(call, name, value)
    if found.size != 1 or found.dtype.kind not in "iu" or found.dtype.itemsize not in (4, 8):
        raise ArgumentError(f"peal.{call}: {name} has {found.size} elements of {found.dtype}; give one integer of 4 or 8 "
                            "bytes, such as array[3:4]")
    return found


def bits(call, found, value):
    """`value` as the bits of a word; ArgumentError where it does not fit."""
    given, width = _whole(call, "value", value), 8 * found.dtype.itemsize
    low, high = (-(1 << width - 1), (1 << width - 1) - 1) if found.dtype.kind == "i" else (0, (1 << width) - 1)
    if not low <= given <= high:
        raise ArgumentError(f"peal.{call}: value {given} does not fit {found.dtype}; give {low} to {high}")
    return given & (1 << width) - 1


def of_bits(found, raw):
    """The number that a word's bits are."""
    width = 8 * found.dtype.itemsize
    return raw - (1 << width) if found.dtype.kind == "i" and raw >> (width - 1) else raw
