# SPDX-License-Identifier: Apache-2.0
"""Kernels that all PEs of one job launch together: peal-run -n N python kernels.py. One source, compiled once."""
import ctypes
import unittest

import numpy as np
import peal

SOURCE = r"""
#include "device/api.h"

namespace {
struct Pair { float x; int32_t n; };
}
__global__ void types(bool yes, int8_t small, uint16_t word, long long wide, float real, double twice, Pair pair, double* out) {
  const double values[] = {double(yes), double(small), double(word), double(wide), real, twice, pair.x, double(pair.n)};
  for (int i = 0; i < 8; ++i) out[i] = values[i];
}
__global__ void pointers(const float* reals, int32_t* numbers, unsigned char* bytes, const void* nothing, Pair* pairs) {
  numbers[0] = static_cast<int32_t>(reals[1]);
  bytes[0] = nothing == nullptr;
  if (pairs != nullptr) pairs[1].n = 7;
}
__global__ void grid(int* count, int* shape) {
  extern __shared__ int sums[];
  const int lane = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  sums[lane] = 1;
  __syncthreads();
  if (lane != 0) return;
  for (int i = 0; i < int(blockDim.x * blockDim.y * blockDim.z); ++i) atomicAdd(count, sums[i]);
  if (blockIdx.x + blockIdx.y + blockIdx.z == 0) shape[0] = gridDim.x * 100 + gridDim.y * 10 + gridDim.z;
}
namespace teams {
__global__ void add_up(peal::Context ctx, peal::Team team, int* dst, const int* src, size_t count) {
  (void)peal::all_reduce(ctx, peal::block, team, dst, src, count, peal::op::sum);
}
}
__global__ void put(peal::Context ctx, int* dst, const int* src, int pe) { (void)peal::put(ctx, dst, src, size_t{1}, pe); }
PEAL_KERNEL stray() { if (threadIdx.x < 2) (void)__shfl_sync(0x3, 1, 5 + 64 * threadIdx.x), __syncwarp(0x8); }
__global__ void nothing() {}
"""


def kernel(name):
    return peal.kernel(SOURCE, name, options=["-O0"])  # compiling is the most of these tests


class Pair(ctypes.Structure):
    _fields_ = [("x", ctypes.c_float), ("n", ctypes.c_int32)]


class Kernels(unittest.TestCase):
    def setUp(self):
        self.me, self.n = peal.my_pe(), peal.n_pes()
        peal.barrier()

    def refused(self, words):
        return self.assertRaisesRegex(peal.ArgumentError, words)

    def test_takes_values_by_the_types_of_parameters(self):
        types, out = kernel("types"), peal.zeros(8)
        types[1, 1](True, -8, 65535, -(1 << 40), 1.5, np.float32(0.25), Pair(2.5, -3), out)
        self.assertEqual(out.numpy().tolist(), [1, -8, 65535, -(1 << 40), 1.5, 0.25, 2.5, -3])
        pair = np.array((3.5, 4), np.dtype([("x", "f4"), ("n", "i4")]))[()]
        types.launch(args=(np.bool_(False), np.int64(1), 0, 0, 1, 2, pair, out))
        self.assertEqual(out.numpy().tolist(), [0, 1, 0, 0, 1, 2, 3.5, 4])
        self.assertEqual(repr(types).split(",")[:2], ["peal.Kernel(types(bool yes", " signed char small"])
        right = [True, 0, 0, 0, 0, 0, Pair(), out]
        for at, value, words in (
                (0, 1, r"peal.kernel\(types\): yes is 1; bool wants True or False"),
                (1, 128, "small is 128; signed char takes -128 to 127"), (2, -1, "word is -1; .* takes 0 to 65535"),
                (3, 1.0, "wide is 1.0; long long int wants a whole number"), (4, "1", "real is '1'; float wants a number"),
                (4, 1e300, "real is 1e.300, which is too large for float"), (5, True, "twice is True; double wants a number"),
                (6, b"123", "pair has 3 bytes; .*Pair has 8"), (6, 5, "pair is 5; .*Pair wants a ctypes.Structure"),
                (7, 5, r"out is 5; double\* wants an array of float64, or None"),
                (7, np.zeros(8, np.float32), "out has dtype float32; .* wants an array of float64"),
                (7, np.zeros(16)[::2], "out of shape .8,. has strides .16,.: not contiguous")):
            with self.subTest(words), self.refused(words):
                types[1, 1](*right[:at], value, *right[at + 1:])
        with self.refused(r"peal.kernel\(types\): 2 given, 8 wanted: \(bool yes, signed char small, "):
            types[1, 1](True, 3)

    def test_takes_arrays(self):
        pointers = kernel("pointers")
        reals, numbers, marks = peal.full(2, 9.5, np.float32), peal.zeros(2, np.int32), peal.zeros(1, np.int8)
        pairs = peal.zeros(2, np.dtype([("x", "f4"), ("n", "i4")]))
        pointers[1, 1](reals, numbers[1:], marks, None, pairs)
        self.assertEqual((numbers.numpy().tolist(), marks[0], pairs[1]["n"]), ([0, 9], 1, 7))
        pointers[1, 1](reals, np.zeros(1, np.int32), np.zeros(1, np.uint8), pairs, np.zeros(16, np.uint8))
        fixed = np.zeros(2, np.int32)
        fixed.flags.writeable = False
        for at, value, words in ((1, fixed, "numbers is read-only"), (4, reals, "pairs has dtype float32; .* 8 bytes"),
                                 (1, np.zeros(9, np.uint8)[1:].view(np.int32), "numbers is at .* no multiple of 4")):
            right = [reals, numbers, marks, None, None]
            with self.subTest(words), self.refused(words):
                pointers[1, 1](*right[:at], value, *right[at + 1:])

    def test_launches_grids(self):
        grid, count, shape = kernel("grid"), peal.zeros(1, np.int32), peal.zeros(1, np.int32)
        grid[(3, 2, 1), (4, 2), 32](count, shape)
        self.assertEqual((count[0], shape[0]), (48, 321))
        for where, words in (((0, 1), "grid 0: give"), ((1, (1, 2, 3, 4)), "block .1, 2, 3, 4.: give"),
                             ((1, (32, 33)), "1024 threads at most"), ((1, 1, -1), "shared -1: give a number of bytes")):
            with self.subTest(words), self.refused(words):
                grid[where](count, shape)
        with self.refused(r"give \[grid, block\]"):
            grid[1]

    def test_takes_teams(self):
        add_up, team = kernel("add_up"), peal.world().split(self.me % 2)
        src, dst = peal.full(5, self.me, np.int32), peal.zeros(5, np.int32)
        add_up[1, 32](peal.context(), team, dst, src, 5)
        self.assertEqual(dst[4], sum(range(self.me % 2, self.n, 2)))
        team.free()
        with self.assertRaisesRegex(peal.Error, "the team has ended"):
            add_up[1, 32](peal.context(), team, dst, src, 5)
        for args, words in (((team, team, dst, src, 5), "ctx is a Team; .*Context.* wants peal.context()"),
                            ((peal.context(), None, dst, src, 5), "team is a NoneType; .*Team wants a peal.Team")):
            with self.refused(words):
                add_up[1, 32](*args)

    def test_tells_what_breaks_the_rules_of_warps(self):
        with self.assertRaisesRegex(peal.Error, r"peal.kernel\(stray\): .*lane"):
            kernel("stray")[1, 32]()
        kernel("nothing")[1, 32]()


if __name__ == "__main__":
    with peal.job():
        unittest.main(argv=["kernels"], verbosity=1 + (peal.my_pe() == 0))
