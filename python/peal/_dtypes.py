# SPDX-License-Identifier: Apache-2.0
"""Types of elements: numpy's, and those of torch that numpy lacks, as structured types of numpy's with one field."""
import numpy as np

from peal.errors import ArgumentError

# What computes by the name alone, and moves as bytes. Its field has the name that libpeal and torch know it by.
BFLOAT16 = np.dtype([("bfloat16", "<u2")])
_OF_TORCH = {"bfloat16": BFLOAT16, "bool": np.dtype(np.bool_)}

# DLDataTypeCode of DLPack, by numpy's letter of a kind.
_CODES = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}
_KINDS = {code: kind for kind, code in _CODES.items()}
_BFLOAT = 4


def name_of(dtype):
    """numpy's name of a dtype, or that of what numpy lacks."""
    return dtype.names[0] if dtype.names is not None and len(dtype.names) == 1 else dtype.name


def of_torch(dtype):
    """The dtype of numpy's for one of torch's; of what numpy lacks one of as many bytes with its name."""
    name = str(dtype).removeprefix("torch.")
    found = _OF_TORCH.get(name)
    if found is None:
        try:
            found = np.dtype(name)
        except TypeError:
            found = np.dtype([(name, f"<u{dtype.itemsize}")])
        _OF_TORCH[name] = found
    return found


def of(call, given):
    """The dtype that a program names: numpy's, torch's, or "bfloat16"."""
    if type(given).__module__.partition(".")[0] == "torch":
        return of_torch(given)
    try:
        return np.dtype(given)
    except TypeError:
        if given == "bfloat16":
            return BFLOAT16
        raise ArgumentError(f"peal.{call}: dtype {given!r}: give one of numpy's, such as np.float32, or of torch's") from None


def converted(values, dtype):
    """`values` for an array of `dtype`, which numpy converts but to what it lacks. Raises TypeError for others than its
    own of a structured type: numpy would take them for its bits."""
    if dtype != BFLOAT16 or values.dtype == BFLOAT16:
        if name_of(dtype) != dtype.name and values.dtype != dtype:
            raise TypeError(f"give values of that type, or fill a tensor of torch; {values.dtype} is not converted")
        return values
    bits = values.astype(np.float32).view(np.uint32).astype(np.int64)
    rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16  # to the nearest, of two to the even one
    return np.where(np.isnan(values), 0x7FC0, rounded).astype(np.uint16).view(BFLOAT16)


def to_dlpack(dtype):
    """(code, bits), as DLDataType has them. Raises BufferError for what DLPack lacks."""
    if name_of(dtype) == "bfloat16":
        return _BFLOAT, 16
    if dtype.kind not in _CODES or not dtype.isnative:
        raise BufferError(f"DLPack has no elements of dtype {dtype}")
    return _CODES[dtype.kind], 8 * dtype.itemsize


def from_dlpack(code, bits):
    """The other way; None for what is neither numpy's nor known here."""
    if (code, bits) == (_BFLOAT, 16):
        return BFLOAT16
    if code not in _KINDS or bits % 8 or bits == 0:
        return None
    try:
        return np.dtype(f"{_KINDS[code]}{bits // 8}")
    except TypeError:
        return None
