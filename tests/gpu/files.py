# SPDX-License-Identifier: Apache-2.0
#
# Files into and out of a GPU's memory: at once, in the order of a stream, as a checkpoint of all PEs, parts of one file
# by all PEs; and how fast, beside dd on the same disk.
#
#   PEAL_CUFILE=auto mpirun -np 2 python3 files.py LIBPEAL FOLDER [BYTES]      LIBPEAL: path of libpeal.so
#
# Ends with "N passed, N failed", as the suite does.
import ctypes
import os
import subprocess
import sys
import time

import torch
from job import Job, Raw


class Memory:
    """Symmetric memory of words."""

    def __init__(self, job, bytes_):
        self.pointer = job.peal.peal_calloc(bytes_, 1)
        if not self.pointer:
            raise RuntimeError(job.peal.peal_error().decode())
        self.bytes = bytes_
        self.words = torch.as_tensor(Raw(self.pointer, bytes_ // 4), device="cuda")

    def fill(self, first):
        self.words.copy_(torch.arange(first, first + self.words.numel(), dtype=torch.int32, device="cuda"))
        torch.cuda.synchronize()

    def has(self, first):
        expected = torch.arange(first, first + self.words.numel(), dtype=torch.int32, device="cuda")
        return bool((self.words == expected).all())


def at_once(job, folder, memory):
    path = f"{folder}/mine-{job.me}".encode()
    memory.fill(1000 * job.me)
    job.call("save", path, memory.pointer, memory.bytes)
    job.say(f"save: {job.peal.peal_describe_storage().decode()}")
    memory.words.zero_()
    torch.cuda.synchronize()
    job.call("load", path, 0, memory.pointer, memory.bytes)
    job.say(f"load: {job.peal.peal_describe_storage().decode()}")
    job.check("save and load", memory.has(1000 * job.me))
    # Neither the file's offset nor memory is a whole number of blocks.
    job.call("load", path, 12, memory.pointer + 4, memory.bytes - 4096)
    odd = memory.words[1 : 1 + (memory.bytes - 4096) // 4]
    expected = torch.arange(3, 3 + odd.numel(), dtype=torch.int32, device="cuda") + 1000 * job.me
    job.check("load of an odd part", bool((odd == expected).all()))


def in_order(job, folder, memory):
    """Each save has what the stream computed before it, each load what the save before it wrote."""
    stream = torch.cuda.Stream()
    path = f"{folder}/stream-{job.me}".encode()
    memory.fill(0)
    with torch.cuda.stream(stream):
        for step in range(1, 9):
            memory.words.add_(1)
            job.call("save_on_stream", path, memory.pointer, memory.bytes, stream.cuda_stream)
            memory.words.zero_()
            job.call("load_on_stream", path, 0, memory.pointer, memory.bytes, stream.cuda_stream)
    stream.synchronize()
    job.call("check")
    job.check("saves and loads in the order of a stream", memory.has(8))
    job.say(f"on a stream: {job.peal.peal_describe_storage().decode()}")


def told_later(job, folder, memory):
    """What fails later than the call is told by check(); the stream goes on."""
    stream = torch.cuda.Stream()
    path = f"{folder}/mine-{job.me}".encode()
    job.call("load_on_stream", path, memory.bytes, memory.pointer, 8, stream.cuda_stream)
    stream.synchronize()
    job.check("a load behind the end is told", job.peal.peal_check() != 0 and path in job.peal.peal_error())


def checkpoint(job, folder, memory):
    path = f"{folder}/checkpoint".encode()
    memory.fill(7000 * job.me)
    job.call("save_checkpoint", path, memory.pointer, memory.bytes)
    memory.words.zero_()
    torch.cuda.synchronize()
    job.call("load_checkpoint", path, memory.pointer, memory.bytes)
    job.check("a checkpoint of all PEs", memory.has(7000 * job.me))
    job.call("barrier")


class FilePart(ctypes.Structure):
    _fields_ = [("offset", ctypes.c_uint64), ("bytes", ctypes.c_uint64)]


def took(action):
    start = time.monotonic()
    action()
    return time.monotonic() - start


def dd(path):
    command = ["dd", f"if={path}", "of=/dev/null", "bs=4M", "iflag=direct"]
    return took(lambda: subprocess.run(command, check=True, capture_output=True))


def shared(job, folder, memory):
    """All PEs load their parts of one file at the same time; dd of all of it in turn."""
    path = f"{folder}/shared"
    if job.me == 0:
        memory.fill(0)
        job.call("save", path.encode(), memory.pointer, memory.bytes)
    part = FilePart()
    right = True

    def load():
        job.call("load_shard", path.encode(), memory.pointer, memory.bytes, 4, ctypes.byref(part))
        job.call("barrier")

    for _ in range(3):
        job.call("barrier")
        alone = dd(path) if job.me == 0 else 0
        job.call("barrier")
        together = took(load)
        first, count = part.offset // 4, part.bytes // 4
        expected = torch.arange(first, first + count, dtype=torch.int32, device="cuda")
        right = right and bool((memory.words[:count] == expected).all())
        if job.me == 0:
            gigabytes = memory.bytes / 1e9
            job.say(f"{job.pes} PEs, one file: dd {gigabytes / alone:.2f} GB/s, load {gigabytes / together:.2f} GB/s")
    job.check("parts of one file", right)
    job.call("barrier")
    if job.me == 0:
        os.unlink(path)


def rates(job, folder, memory):
    """PE 0 alone; dd and load in turn."""
    path = f"{folder}/rate"
    if job.me == 0:
        job.call("save", path.encode(), memory.pointer, memory.bytes)
        for _ in range(3):
            alone = dd(path)
            load = took(lambda: job.call("load", path.encode(), 0, memory.pointer, memory.bytes))
            gigabytes = memory.bytes / 1e9
            job.say(f"{memory.bytes} bytes: dd {gigabytes / alone:.2f} GB/s, load {gigabytes / load:.2f} GB/s")
        os.unlink(path)
    job.call("barrier")


def main():
    torch.cuda.set_device(0)
    job = Job()
    folder = sys.argv[2]
    memory = Memory(job, int(sys.argv[3]) if len(sys.argv) > 3 else 64 << 20)
    at_once(job, folder, memory)
    in_order(job, folder, memory)
    checkpoint(job, folder, memory)
    shared(job, folder, memory)
    rates(job, folder, memory)
    told_later(job, folder, memory)
    job.call("free", memory.pointer)
    job.end()


if __name__ == "__main__":
    main()
