# SPDX-License-Identifier: Apache-2.0
"""What streams.py runs on: a GPU with torch, or where none is a CPU whose arrays behave as a GPU's.

There calls go to a stream of libpeal's own on a CPU, which does them in a thread of its own, and only DLPack reaches the
arrays. What CUDA's driver and torch do is not tested so."""
import contextlib
import ctypes

import numpy as np
import peal
from peal import _device, _memory, _stream
from peal._library import FUNCTIONS


def torch_with_gpu():
    """The module, where it finds a GPU; else None."""
    try:
        ctypes.CDLL("libcuda.so.1")
        import torch
    except (ImportError, OSError):
        return None
    return torch if torch.cuda.is_available() else None


class Torch:
    """Arrays as tensors of the PE's GPU."""

    def __init__(self, torch):
        self.torch, self.device = torch, "cuda"

    def begin(self):
        self.torch.cuda.set_device(peal.device())

    def tensor(self, array):
        return self.torch.from_dlpack(array)

    def values(self, array):
        return self.tensor(array).cpu().float().tolist()

    def fill(self, array, value):
        self.tensor(array).fill_(value)  # on the current stream

    def stream(self):
        return self.torch.cuda.Stream()


class _Device(_device.Cpu):
    is_gpu = True

    def __init__(self):
        self.streams, self.captures = [], False

    def settle(self):
        for stream in self.streams:
            self.synchronize(stream)

    def is_capturing(self, stream):
        return self.captures

    def synchronize(self, stream):
        assert FUNCTIONS["stream_synchronize"](stream) == 0

    def stream(self):
        self.streams.append(FUNCTIONS["stream_create"]())
        return self.streams[-1]

    def __str__(self):
        return "the stand-in"


class Numpy:
    """Arrays as arrays of numpy's that DLPack made."""

    def __init__(self):
        self.device, self._device, self._default = "cpu", _Device(), None
        _memory._device.of_memory = lambda address: self._device
        _stream.current = lambda device: self._current()

    def begin(self):
        pass

    def _current(self):
        self._default = self._default or self._device.stream()
        return self._default

    def tensor(self, array):
        self._device.settle()  # as work of numpy's is in the order of no stream
        view = np.from_dlpack(array)  # which older numpys take for read-only
        memory = (ctypes.c_char * view.nbytes).from_address(view.ctypes.data)
        memory.owner = view
        return np.ndarray(view.shape, view.dtype, memory)

    def values(self, array):
        given = array.copy_to_host()
        if given.dtype.names == ("bfloat16",):
            given = (given["bfloat16"].astype(np.uint32) << 16).view(np.float32)
        return given.tolist()

    def fill(self, array, value):
        array.copy_from_host(value)

    def stream(self):
        return self._device.stream()

    @contextlib.contextmanager
    def capture(self):
        """As if a graph were made of what streams are given; it is done all the same."""
        self._device.captures = True
        try:
            yield
        finally:
            self._device.captures = False


def found():
    """Torch where it has a GPU, else Numpy."""
    torch = torch_with_gpu()
    return Torch(torch) if torch else Numpy()
