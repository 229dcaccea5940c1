# SPDX-License-Identifier: Apache-2.0
#
# Tensors of PyTorch as windows, one PE: allocated with and without expandable segments, in one mapping and across
# several, written by peers and read back; registered and ended 10,000 times; registered once and found again until they
# are freed. Memory of a pool of cudaMallocAsync that was made to be shared, and of the default one, which cannot be.
# Blocks of the heap that it had to grow for, blocks in host memory, shared memory of the host. What a put to a tensor
# takes, beside one to the heap.
#
#   PEAL_TRANSPORT=p2p mpirun -np 2 python3 tensors.py LIBPEAL [CYCLES]     LIBPEAL: path of libpeal.so
#
# Ends with "N passed, N failed", as the suite does; PE 0 speaks.
import ctypes
import mmap
import os
import sys
import time

os.environ.setdefault("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")
os.environ.setdefault("PYTORCH_ALLOC_CONF", os.environ["PYTORCH_CUDA_ALLOC_CONF"])
import torch  # noqa: E402  (behind the allocator's settings)
from job import Job, Raw  # noqa: E402


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
    job.call("put", window.data_ptr(), source.data_ptr(), bytes_, after)
    job.meet()
    expected = torch.arange(count, device="cuda") % 127 + before
    job.check(name + ", put", bool((window == expected.to(window.dtype)).all()))
    job.call("get", back.data_ptr(), source.data_ptr(), bytes_, before)
    job.check(name + ", get", bool((back == expected.to(back.dtype)).all()))
    job.meet()
    for each in (window, source, back):
        job.unregister(each)
    job.meet()


class PoolProperties(ctypes.Structure):
    """CUmemPoolProps."""

    _fields_ = [
        ("type", ctypes.c_int),
        ("handle_types", ctypes.c_int),
        ("location_type", ctypes.c_int),
        ("location_id", ctypes.c_int),
        ("security", ctypes.c_void_p),
        ("most_bytes", ctypes.c_size_t),
        ("usage", ctypes.c_ushort),
        ("reserved", ctypes.c_ubyte * 54),
    ]


assert ctypes.sizeof(PoolProperties) == 88


class Pool:
    """A pool of GPU 0's memory that other processes can open by its descriptor; or, not shared, the default one."""

    def __init__(self, shared):
        self.cuda = ctypes.CDLL("libcuda.so.1")
        self.shared = shared
        self.pool = ctypes.c_void_p()
        self.allocations = []
        properties = PoolProperties(type=1, handle_types=1, location_type=1, location_id=0)  # pinned, POSIX, device
        if shared:
            self.call("cuMemPoolCreate", ctypes.byref(self.pool), ctypes.byref(properties))
        else:
            self.call("cuDeviceGetDefaultMemPool", ctypes.byref(self.pool), ctypes.c_int(0))

    def call(self, name, *arguments):
        result = getattr(self.cuda, name)(*arguments)
        if result != 0:
            raise RuntimeError(f"{name}: CUDA error {result}")

    def words(self, count):
        address = ctypes.c_uint64()
        bytes_ = ctypes.c_size_t(4 * count)
        self.call("cuMemAllocFromPoolAsync", ctypes.byref(address), bytes_, self.pool, ctypes.c_void_p())
        torch.cuda.synchronize()
        self.allocations.append(address)
        return torch.as_tensor(Raw(address.value, count), device="cuda")

    def end(self):
        torch.cuda.synchronize()
        for address in self.allocations:
            self.call("cuMemFreeAsync", address, ctypes.c_void_p())
        torch.cuda.synchronize()
        if self.shared:
            self.call("cuMemPoolDestroy", self.pool)


def pools(job, count):
    """Memory of pools. What the driver imports twice it ends at the first free: two windows of one allocation."""
    pool = Pool(True)
    exchange(job, "a pool", pool.words, count)
    exchange(job, "a slice of a pool", lambda n: pool.words(n + 333)[333:], count)
    whole = pool.words(2 * count)
    job.register(whole)
    job.register(whole[count:])
    put_once(job, "a window of a pool", whole, 300)
    job.unregister(whole)
    put_once(job, "a window of a pool whose other one has ended", whole[count:], 400)
    job.unregister(whole[count:])
    job.meet()  # who frees is the last that has it
    pool.end()
    default = Pool(False)
    words = default.words(count)
    refused = job.peal.peal_register_window(words.data_ptr(), 4 * count) != 0
    error = job.peal.peal_error().decode()
    job.check("the default pool is refused", refused and "cudaMemHandleTypePosixFileDescriptor" in error)
    job.call("barrier")
    default.end()


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
        job.call("put", pointer + 4 * count, pointer, 4 * count, after)
        job.meet()
        good = (block[count:] - block[:count] == before - job.me).all()
        job.check(f"{name}, round {round_}", bool(good))
        del block
        job.call("free", pointer)
    job.meet()


def host_pages(job, count):
    """Host memory that the program has mapped itself, each PE at another place in a page."""
    file = os.memfd_create("tensors")
    os.ftruncate(file, 2 * 4 * count + 4096)
    pages = mmap.mmap(file, 0)
    os.close(file)
    words = torch.frombuffer(pages, dtype=torch.int32)[8 * job.me :][: 2 * count]
    job.register(words)
    words[:count] = torch.arange(count, dtype=torch.int32) % 127 + job.me
    job.meet()
    after, before = (job.me + 1) % job.pes, (job.me - 1) % job.pes
    job.call("put", words[count:].data_ptr(), words.data_ptr(), 4 * count, after)
    job.meet()
    job.check("shared memory of the host", bool((words[count:] - words[:count] == before - job.me).all()))
    job.meet()
    job.unregister(words)


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
    job.say(f"{count} cycles: {spent:.0f} us each")
    job.meet()


def put_once(job, name, tensor, value):
    """Each PE puts a value into all of the next PE's tensor."""
    source = torch.full_like(tensor, value + job.me)
    torch.cuda.synchronize()
    job.register(source)
    job.meet()
    bytes_ = tensor.numel() * tensor.element_size()
    job.call("put", tensor.data_ptr(), source.data_ptr(), bytes_, (job.me + 1) % job.pes)
    job.meet()
    job.check(name, bool((tensor == value + (job.me - 1) % job.pes).all()))
    job.meet()
    job.unregister(source)


def cached(job, count):
    """Tensors that are registered as often as they are used, while their allocator frees some."""
    tensors = [torch.zeros(8 << 20, dtype=torch.int32, device="cuda") for _ in range(4)]
    for each in tensors:
        job.register(each, "register_window_cached")
    start = time.monotonic()
    for i in range(count):
        job.register(tensors[i % 4], "register_window_cached")
    job.say(f"{count} registrations of what is registered: {(time.monotonic() - start) / count * 1e6:.1f} us each")
    for each in tensors:
        put_once(job, "a tensor that was registered before", each, 100)
    # The last PE's allocator gives its memory back, and has other memory at the same addresses.
    if job.me == job.pes - 1:
        tensors = []
        torch.cuda.empty_cache()
        tensors = [torch.zeros(8 << 20, dtype=torch.int32, device="cuda") for _ in range(4)]
    for each in tensors:
        job.register(each, "register_window_cached")
        put_once(job, "a tensor where another one was", each, 200)
    for each in tensors:
        job.unregister(each)
    job.meet()


def best_put(job, to, source, bytes_):
    """Seconds of PE 0's put to PE 1, the least of some."""
    best = 1e9
    for _ in range(20 if job.me == 0 else 0):
        torch.cuda.synchronize()
        start = time.monotonic()
        job.call("put", to, source, bytes_, 1)
        job.call("quiet")
        best = min(best, time.monotonic() - start)
    job.meet()
    return best


def ratio(job, bytes_):
    """A put to a tensor against one to the heap."""
    block = job.peal.peal_calloc(2 * bytes_, 1)
    if not block:
        raise RuntimeError(job.peal.peal_error().decode())
    tensor = torch.empty(bytes_, dtype=torch.uint8, device="cuda")
    job.register(tensor)
    heap = [best_put(job, block, block + bytes_, bytes_) for _ in range(2)]
    window = best_put(job, tensor.data_ptr(), block + bytes_, bytes_)
    heap.append(best_put(job, block, block + bytes_, bytes_))
    job.say(f"put of {bytes_} bytes: heap {min(heap) * 1e6:.1f} us, tensor {window * 1e6:.1f} us: "
            f"{min(heap) / window:.3f} of the heap's rate")
    job.unregister(tensor)
    job.call("free", block)


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
    if os.environ.get("PEAL_TRANSPORT") != "ibgda":  # a NIC on a GPU takes none
        host_pages(job, 1 << 20)
    if os.environ.get("PEAL_TRANSPORT") == "p2p":  # pools are shared by loads and stores alone
        pools(job, 1 << 20)
    cycles(job, int(sys.argv[2]) if len(sys.argv) > 2 else 200)
    cached(job, 1000)
    for bytes_ in (8, 64 << 10, 1 << 20, 32 << 20):
        ratio(job, bytes_)
    job.end()


if __name__ == "__main__":
    main()
