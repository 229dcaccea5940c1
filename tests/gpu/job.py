# SPDX-License-Identifier: Apache-2.0
#
# One PE of a job by peal's C API, for programs with PyTorch: its path is their first argument.
import ctypes
import sys


def load():
    peal = ctypes.CDLL(sys.argv[1])
    peal.peal_error.restype = ctypes.c_char_p
    peal.peal_describe_storage.restype = ctypes.c_char_p
    pointer, size, path = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p
    for name, arguments in {
        "put": [pointer, pointer, size, ctypes.c_int],
        "get": [pointer, pointer, size, ctypes.c_int],
        "register_window": [pointer, size],
        "register_window_cached": [pointer, size],
        "unregister_window": [pointer],
        "free": [pointer],
        "load": [path, ctypes.c_uint64, pointer, size],
        "load_on_stream": [path, ctypes.c_uint64, pointer, size, pointer],
        "load_shard": [path, pointer, size, size, pointer],
        "save": [path, pointer, size],
        "save_on_stream": [path, pointer, size, pointer],
        "save_checkpoint": [path, pointer, size],
        "load_checkpoint": [path, pointer, size],
    }.items():
        getattr(peal, "peal_" + name).argtypes = arguments
    for allocate in (peal.peal_calloc, peal.peal_calloc_host):
        allocate.restype = pointer
        allocate.argtypes = [size, size]
    return peal


class Job:
    def __init__(self):
        self.peal = load()
        self.must(self.peal.peal_init(), "peal_init")
        self.me = self.peal.peal_my_pe()
        self.pes = self.peal.peal_n_pes()
        self.passed = self.failed = 0

    def must(self, result, what):
        if result != 0:
            raise RuntimeError(f"{what}: {self.peal.peal_error().decode()}")

    def call(self, name, *arguments):
        self.must(getattr(self.peal, "peal_" + name)(*arguments), name)

    def meet(self):
        """What was put is there."""
        self.call("quiet")
        self.call("barrier")

    def register(self, tensor, how="register_window"):
        self.call(how, tensor.data_ptr(), tensor.numel() * tensor.element_size())

    def unregister(self, tensor):
        self.call("unregister_window", tensor.data_ptr())

    def say(self, text):
        if self.me == 0:
            print(text, flush=True)

    def check(self, name, good):
        if good:
            self.passed += 1
        else:
            self.failed += 1
            print(f"PE {self.me}: failed: {name}", flush=True)

    def end(self):
        """Ends the program, as the suite does."""
        self.call("finalize")
        self.say(f"{self.passed} passed, {self.failed} failed")
        sys.exit(self.failed != 0)


class Raw:
    """Memory of a GPU as PyTorch takes it: torch.as_tensor(Raw(pointer, count), device="cuda")."""

    def __init__(self, pointer, count):
        self.__cuda_array_interface__ = {"data": (pointer, False), "shape": (count,), "typestr": "<i4", "version": 3}
