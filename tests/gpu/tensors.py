# SPDX-License-Identifier: Apache-2.0
#
# Tensors of PyTorch as windows, one PE: allocated with and without expandable segments, in one
# mapping and across several, written by peers and read back; registered and ended 10,000 times. And
# blocks of the heap that it had to grow for, and blocks in host memory.
#
#   PEAL_TRANSPORT=p2p mpirun -np 2 python3 tensors.py LIBPEAL [CYCLES]     LIBPEAL: path of libpeal.so
#
# Ends with "N passed, N failed", as the suite does; PE 0 speaks.
import ctypes
import os
import sys
import time

os.environ.setdefault("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")
os.environ.setdefault("PYTORCH_ALLOC_CONF", os.environ["PYTORCH_CUDA_ALLOC_CONF"])
import torch  # noqa: E402  (behind the allocator's settings)


class Window(ctypes.Structure):
    _fields_ = [("number", ctypes.c_uint32)]


def load():
    peal = ctypes.CDLL(sys.argv[1])
    peal.peal_error.restype = ctypes.c_char_p
    peal.peal_put.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    peal.peal_get.argtypes = peal.peal_put.argtypes
    peal.peal_register_window.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    peal.peal_unregister_window.argtypes = [ctypes.c_void_p]
    peal.peal_free.argtypes = [ctypes.c_void_p]
    for allocate in (peal.peal_calloc, peal.peal_calloc_host):
        allocate.restype = ctypes.c_void_p
        allocate.argtypes = [ctypes.c_size_t, ctypes.c_size_t]
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

    def meet(self):
        """What was put is there."""
        self.must(self.peal.peal_quiet(), "peal_quiet")
        self.must(self.peal.peal_barrier(), "peal_barrier")

    def register(self, tensor):
        bytes_ = tensor.numel() * tensor.element_size()
        self.must(self.peal.peal_register_window(tensor.data_ptr(), bytes_), "peal_register_window")

    def unregister(self, tensor):
        self.must(self.peal.peal_unregister_window(tensor.data_ptr()), "peal_unregister_window")

    def check(self, name, good):
        if good:
            self.passed += 1
        else:
            self.failed += 1
            print(f"PE {self.me}: failed: {name}", flush=True)


def exchange(job, name, make, count):
    """Each PE puts its tensor into the next PE's and gets the one before's back."""
    window, source, back = make(count), make(count), make(count)
    source.copy_(torch.arange(count, device="cuda") % 127 + job.me)
    window.zero_()
    back.zero_()
    torch.cuda.synchronize()
    for each in (window, source, back):
        job.register(each)
    job.meet()
    bytes_ = count * window.element_size()
    after, before = (job.me + 1) % job.pes, (job.me - 1) % job.pes
    job.must(job.peal.peal_put(window.data_ptr(), source.data_ptr(), bytes_, after), "peal_put")
    job.meet()
    expected = torch.arange(count, device="cuda") % 127 + before
    job.check(name + ", put", bool((window == expected.to(window.dtype)).all()))
    job.must(job.peal.peal_get(back.data_ptr(), source.data_ptr(), bytes_, before), "peal_get")
    job.check(name + ", get", bool((back == expected.to(back.dtype)).all()))
    job.meet()
    for each in (window, source, back):
        job.unregister(each)
    job.meet()


class Raw:
    """Memory of a GPU as NumPy and PyTorch take it."""

    def __init__(self, pointer, count):
        self.__cuda_array_interface__ = {"data": (pointer, False), "shape": (count,), "typestr": "<i4", "version": 3}


def device_block(job, count):
    pointer = job.peal.peal_calloc(count, 4)
    return pointer, pointer and torch.as_tensor(Raw(pointer, count), device="cuda")


def host_block(job, count):
    pointer = job.peal.peal_calloc_host(count, 4)
    return pointer, pointer and torch.frombuffer((ctypes.c_int32 * count).from_address(pointer), dtype=torch.int32)


def blocks(job, name, make, count):
    """The same with symmetric memory: half of a block is put into the other half of the next PE's."""
    for round_ in range(3):
        pointer, block = make(job, 2 * count)
        if not pointer and os.environ.get("PEAL_TRANSPORT") == "ibgda" and make is host_block:
            error = job.peal.peal_error().decode()
            job.check(name + " refused, for the NIC runs on a GPU", "ibv_reg_mr" in error)
            return
        if not pointer:
            raise RuntimeError(f"{name}: {job.peal.peal_error().decode()}")
        block[:count] = torch.arange(count, dtype=torch.int32, device=block.device) % 127 + job.me
        torch.cuda.synchronize()
        job.meet()
        after, before = (job.me + 1) % job.pes, (job.me - 1) % job.pes
        job.must(job.peal.peal_put(pointer + 4 * count, pointer, 4 * count, after), "peal_put")
        job.meet()
        good = (block[count:] - block[:count] == before - job.me).all()
        job.check(f"{name}, round {round_}", bool(good))
        del block
        job.must(job.peal.peal_free(pointer), "peal_free")
    job.meet()


def open_descriptors():
    return len(os.listdir("/proc/self/fd"))


def cycle(job, tensor, count):
    start = time.monotonic()
    for _ in range(count):
        job.register(tensor)
        job.unregister(tensor)
    return (time.monotonic() - start) / count * 1e6


def cycles(job, count):
    """Registering and ending leaves nothing behind, once each number of a window has been used."""
    cycle(job, torch.empty(1024, dtype=torch.uint8, device="cuda"), 8200)
    tensor = torch.empty(30 << 20, dtype=torch.uint8, device="cuda")
    cycle(job, tensor, 10)
    torch.cuda.synchronize()
    job.meet()
    files, (free, _) = open_descriptors(), torch.cuda.mem_get_info()
    job.meet()
    spent = cycle(job, tensor, count)
    job.meet()
    job.check("cycles leave no descriptors", open_descriptors() == files)
    left = free - torch.cuda.mem_get_info()[0]
    job.check(f"cycles leave no memory ({left} bytes)", left <= 0)
    if job.me == 0:
        print(f"{count} cycles: {spent:.0f} us each", flush=True)
    job.meet()


def main():
    torch.cuda.set_device(0)
    job = Job()
    for dtype in (torch.float32, torch.int64):
        for count in (1, 1000, (1 << 20) // 4, 50 << 20 >> 3):
            exchange(job, f"{count} of {dtype}", lambda n, t=dtype: torch.empty(n, dtype=t, device="cuda"), count)
    # Not where the allocation begins, and not at a page.
    exchange(job, "a slice", lambda n: torch.empty(n + 333, dtype=torch.int32, device="cuda")[333:], 11 << 20)
    blocks(job, "a block of the heap", device_block, 1000)
    blocks(job, "a block that the heap grows for", device_block, 20 << 20)
    blocks(job, "a block of host memory", host_block, 1 << 20)
    cycles(job, int(sys.argv[2]) if len(sys.argv) > 2 else 200)
    job.must(job.peal.peal_finalize(), "peal_finalize")
    if job.me == 0:
        print(f"{job.passed} passed, {job.failed} failed", flush=True)
    sys.exit(job.failed != 0)


if __name__ == "__main__":
    main()
