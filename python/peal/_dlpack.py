# SPDX-License-Identifier: Apache-2.0
"""DLPack for memory that numpy does not reach: a GPU's. Structures as dlpack.h declares them.

numpy makes the capsule, whose destructor and deleter are C and so may run at any time: while an exception is under way,
in any thread, at the interpreter's end. Only what it says of the device, and of types that numpy lacks, is put right."""
import ctypes

import numpy as np

from peal import _dtypes

_NAME = b"dltensor"  # "used_dltensor" once somebody has taken it


class _Tensor(ctypes.Structure):
    """DLTensor, with which a DLManagedTensor begins."""

    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
                ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
                ("byte_offset", ctypes.c_uint64)]


_get = ctypes.pythonapi["PyCapsule_GetPointer"]
_get.restype, _get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]


def _tensor_of(capsule):
    return ctypes.cast(_get(capsule, _NAME), ctypes.POINTER(_Tensor)).contents


def export(whole, nbytes, shape, dtype, device):
    """A capsule with a C-contiguous tensor of the first `nbytes` of `whole`, bytes of numpy's at an address that is not
    touched; their owner lives as long as who takes the capsule. `device`: (type, number)."""
    code, bits = _dtypes.to_dlpack(dtype)
    plain = dtype if dtype.kind in "iufc" else np.dtype(f"u{dtype.itemsize}")
    capsule = whole[:nbytes].view(plain).reshape(shape).__dlpack__()
    tensor = _tensor_of(capsule)
    tensor.device_type, tensor.device_id = device
    tensor.code, tensor.bits = code, bits
    return capsule


class View:
    """What a capsule tells of a tensor."""

    __slots__ = ("address", "contiguous", "dtype", "shape", "strides")

    def __init__(self, capsule):
        tensor = _tensor_of(capsule)
        self.shape = tuple(tensor.shape[:tensor.ndim])
        self.strides = tuple(tensor.strides[:tensor.ndim]) if tensor.strides else None  # in elements
        self.contiguous = self.strides is None or _is_contiguous(self.shape, self.strides)
        self.address = (tensor.data or 0) + tensor.byte_offset
        self.dtype = _dtypes.from_dlpack(tensor.code, tensor.bits) if tensor.lanes == 1 else None


def _is_contiguous(shape, strides):
    if 0 in shape:
        return True
    step = 1
    for size, stride in zip(reversed(shape), reversed(strides)):
        if size != 1 and stride != step:
            return False
        step *= size
    return True
