# SPDX-License-Identifier: Apache-2.0
"""DLPack for memory that numpy does not export or read: a GPU's. Structures as dlpack.h declares them.

    Array --__dlpack__()--> capsule --torch.from_dlpack()--> tensor
                              |  DLManagedTensor: address, shape, deleter
                              '--> _exported: keeps the array's memory until the tensor's end calls the deleter"""
import ctypes

from peal import _dtypes

_NAME = b"dltensor"  # "used_dltensor" once somebody has taken it


class _Tensor(ctypes.Structure):
    """DLTensor"""

    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
                ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
                ("byte_offset", ctypes.c_uint64)]


_Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class _Managed(ctypes.Structure):
    """DLManagedTensor"""

    _fields_ = [("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", _Deleter)]


_exported = {}  # what others hold, by the address of its DLManagedTensor


@_Deleter
def _delete(managed, forget=_exported.pop):  # bound here: at the interpreter's end names of the module go before tensors do
    forget(managed, None)


_new, _get, _is = (ctypes.pythonapi[name] for name in ("PyCapsule_New", "PyCapsule_GetPointer", "PyCapsule_IsValid"))
_new.restype, _new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
# By address: a capsule that is being destroyed must not be counted anew.
_is.restype, _is.argtypes = ctypes.c_int, [ctypes.c_void_p, ctypes.c_char_p]
_get.restype, _get.argtypes = ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_char_p]


@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def _destroy(capsule):
    """Of a capsule: what nobody has taken is deleted."""
    if _is(capsule, _NAME):
        _delete(_get(capsule, _NAME))


def export(owner, address, shape, dtype, device):
    """A capsule with a C-contiguous tensor. `owner` lives as long as who takes it. `device`: (type, number)."""
    code, bits = _dtypes.to_dlpack(dtype)
    sizes = (ctypes.c_int64 * max(len(shape), 1))(*shape)
    managed = _Managed(_Tensor(address, *device, len(shape), code, bits, 1, sizes, None, 0), None, _delete)
    at = ctypes.addressof(managed)
    _exported[at] = managed, sizes, owner
    return _new(at, _NAME, ctypes.cast(_destroy, ctypes.c_void_p))


class View:
    """What a capsule tells of a tensor."""

    __slots__ = ("address", "contiguous", "device", "dtype", "shape", "strides")

    def __init__(self, capsule):
        tensor = ctypes.cast(_get(id(capsule), _NAME), ctypes.POINTER(_Tensor)).contents
        self.shape = tuple(tensor.shape[:tensor.ndim])
        self.strides = tuple(tensor.strides[:tensor.ndim]) if tensor.strides else None  # in elements
        self.contiguous = self.strides is None or _is_contiguous(self.shape, self.strides)
        self.address = (tensor.data or 0) + tensor.byte_offset
        self.dtype = _dtypes.from_dlpack(tensor.code, tensor.bits) if tensor.lanes == 1 else None
        self.device = (tensor.device_type, tensor.device_id)


def _is_contiguous(shape, strides):
    if 0 in shape:
        return True
    step = 1
    for size, stride in zip(reversed(shape), reversed(strides)):
        if size != 1 and stride != step:
            return False
        step *= size
    return True
