# SPDX-License-Identifier: Apache-2.0
"""What numpy arrays that were made of symmetric memory see after its end: the values of then, at the same addresses.

libpeal unmaps the heap, and an array of numpy's holds a bare address. So the bytes that such arrays can see are copied
before, and private pages with them are mapped there afterwards. They stay as long as the process does."""
import ctypes
import mmap

_PAGE = mmap.PAGESIZE
_MAP_FIXED_NOREPLACE = 0x100000
_libc = ctypes.CDLL(None)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]


def _whole_pages(ranges):
    """Ranges (address, bytes) as ranges of pages that do not touch."""
    pages = []
    for begin, length in sorted(ranges):
        low, high = begin // _PAGE * _PAGE, -(-(begin + length) // _PAGE) * _PAGE
        if pages and low <= pages[-1][1]:
            pages[-1][1] = max(high, pages[-1][1])
        else:
            pages.append([low, high])
    return [(low, high - low) for low, high in pages]


def keep(ranges):
    """Copies of the bytes in `ranges`, for put_back()."""
    return [(begin, length, [(at, bytes((ctypes.c_char * size).from_address(at))) for at, size in ranges if begin <= at < begin + length])
            for begin, length in _whole_pages(ranges)]


def put_back(kept):
    """Maps pages with them where they were, unless something else lies there by now."""
    for begin, length, parts in kept:
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_FIXED_NOREPLACE
        if _libc.mmap(begin, length, mmap.PROT_READ | mmap.PROT_WRITE, flags, -1, 0) != begin:
            continue
        for at, content in parts:
            ctypes.memmove(at, content, len(content))
