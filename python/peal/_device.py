# SPDX-License-Identifier: Apache-2.0
"""Where a PE's symmetric memory lies, and what Python itself does to it: bytes in and out, waits for streams.

On a GPU by CUDA's driver, found at run time: no framework is needed. Streams are handles, numbers as cudaStream_t is."""
import contextlib
import ctypes
import functools

from peal.errors import Error


@contextlib.contextmanager
def named(call):
    """Puts the call's name before what the driver says."""
    try:
        yield
    except Error as error:
        raise Error(f"peal.{call}: {error}") from None


class Cpu:
    """Memory that this process loads and stores."""

    is_gpu = False
    dlpack = (1, 0)

    def read(self, address, nbytes):
        return ctypes.string_at(address, nbytes)

    def write(self, address, data):
        ctypes.memmove(address, data, len(data))

    def settle(self):
        """Returns when all that this PE was given to do is done: here nothing is left."""

    def __str__(self):
        return "cpu"


_DEVICE_ORDINAL = 9  # of CUpointer_attribute
_CAPABILITY = 75, 76  # of CUdevice_attribute: CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, _MINOR
_CAPTURED_IMPLICITLY = 906  # CUDA_ERROR_STREAM_CAPTURE_IMPLICIT
_pointer, _size = ctypes.c_void_p, ctypes.c_size_t
_SIGNATURES = {
    "cuPointerGetAttribute": [_pointer, ctypes.c_int, _pointer],
    "cuDeviceGet": [_pointer, ctypes.c_int],
    "cuDeviceGetAttribute": [_pointer, ctypes.c_int, ctypes.c_int],
    "cuDevicePrimaryCtxRetain": [_pointer, ctypes.c_int],
    "cuCtxPushCurrent_v2": [_pointer], "cuCtxPopCurrent_v2": [_pointer], "cuCtxSynchronize": [],
    "cuStreamSynchronize": [_pointer], "cuStreamIsCapturing": [_pointer, _pointer],
    "cuMemcpyDtoH_v2": [_pointer, _pointer, _size], "cuMemcpyHtoD_v2": [_pointer, _pointer, _size],
    "cuGetErrorName": [ctypes.c_int, _pointer],
    "cuModuleLoadData": [_pointer, ctypes.c_char_p], "cuModuleGetFunction": [_pointer, _pointer, ctypes.c_char_p],
    "cuFuncSetAttribute": [_pointer, ctypes.c_int, ctypes.c_int],
    "cuLaunchKernel": [_pointer, *[ctypes.c_uint] * 7, _pointer, _pointer, _pointer],
}


def _driver():
    try:
        driver = ctypes.CDLL("libcuda.so.1")
        for name, arguments in _SIGNATURES.items():
            getattr(driver, name).argtypes = arguments
    except (OSError, AttributeError):
        return None  # then no memory is a GPU's
    return driver


class _DriverError(Error):
    def __init__(self, name, result, told):
        super().__init__(f"{name}: CUDA error {result} ({told}); kernels before may have failed: see check()")
        self.result = result


class Cuda:
    """The GPU `index`, as CUDA numbers those that this process sees."""

    is_gpu = True

    def __init__(self, driver, index):
        self._driver, self.index = driver, index
        self.dlpack = (2, index)
        self._device, self._context = ctypes.c_int(), ctypes.c_void_p()
        self._must("cuDeviceGet", ctypes.addressof(self._device), index)
        self._must("cuDevicePrimaryCtxRetain", ctypes.addressof(self._context), self._device)  # CUDA's runtime and torch have it too

    def _must(self, name, *arguments):
        result = getattr(self._driver, name)(*arguments)
        if result != 0:
            word = ctypes.c_char_p()
            self._driver.cuGetErrorName(result, ctypes.addressof(word))
            raise _DriverError(name.removesuffix("_v2"), result, (word.value or b"unknown").decode())

    def call(self, name, *arguments):
        """One of the driver's functions, for who has selected the GPU. Raises Error."""
        self._must(name, *arguments)

    def _within(self, name, *arguments):
        with self.selected():
            self._must(name, *arguments)

    @property
    def context(self):
        """Its primary CUcontext, as a number."""
        return self._context.value

    @contextlib.contextmanager
    def selected(self):
        """Makes it the GPU that this thread's calls of CUDA are for."""
        self._must("cuCtxPushCurrent_v2", self._context)
        try:
            yield
        finally:
            self._driver.cuCtxPopCurrent_v2(ctypes.byref(ctypes.c_void_p()))

    @functools.cached_property
    def capability(self):
        """Its compute capability, such as "90"."""
        numbers = ctypes.c_int(), ctypes.c_int()
        for number, attribute in zip(numbers, _CAPABILITY):
            self._must("cuDeviceGetAttribute", ctypes.addressof(number), attribute, self._device)
        return "".join(str(number.value) for number in numbers)

    def read(self, address, nbytes):
        data = ctypes.create_string_buffer(nbytes)
        self._within("cuMemcpyDtoH_v2", ctypes.addressof(data), address, nbytes)
        return data.raw

    def write(self, address, data):
        kept = bytes(data)
        self._within("cuMemcpyHtoD_v2", address, kept, len(kept))
        self.synchronize(0)  # the copy returns before the last bytes have left its staging memory

    def settle(self):
        """Returns when all streams of the GPU have done what they were given."""
        self._within("cuCtxSynchronize")

    def synchronize(self, stream):
        """Returns when a stream has done what it was given."""
        self._within("cuStreamSynchronize", stream)

    def is_capturing(self, stream):
        """Whether a graph is being made of what the stream is given; of CUDA's default one, what any stream is."""
        status = ctypes.c_int()
        try:
            self._within("cuStreamIsCapturing", stream, ctypes.addressof(status))
        except _DriverError as error:
            if error.result == _CAPTURED_IMPLICITLY:
                return True
            raise
        return status.value != 0

    def __str__(self):
        return f"cuda:{self.index}"


def of_memory(address):
    """Where the memory at an address lies."""
    driver, ordinal = _driver(), ctypes.c_int()
    if driver is None or driver.cuPointerGetAttribute(ctypes.addressof(ordinal), _DEVICE_ORDINAL, address) != 0:
        return Cpu()
    return Cuda(driver, ordinal.value)
