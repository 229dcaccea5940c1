# SPDX-License-Identifier: Apache-2.0
"""streams.py where torch has a GPU: its tensors, allocator, streams and graphs. Elsewhere each case is skipped."""
import os
import unittest
import unittest.mock

import cases
import numpy as np
import peal
import stand_in
from peal import _job, _nvrtc, _toolchains
from peal._library import NATIVE

torch = stand_in.torch_with_gpu()
KERNELS = r"""
#include "device/api.h"
__global__ void scale(float* x, float by, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) x[i] *= by;
}
__global__ void meet(peal::Context ctx, peal::Team team, int* dst, const int* src, uint64_t* word, int next) {
  (void)peal::all_reduce(ctx, peal::block, team, dst, src, size_t{4}, peal::op::sum);
  if (threadIdx.x == 0) (void)peal::atomic_add(ctx, word, uint64_t{1}, next);
  (void)peal::barrier_all(ctx, peal::block);
}
"""
SHARED = r"""
__global__ void fill(int* x) {
  extern __shared__ int place[];
  place[25000 + threadIdx.x] = threadIdx.x;
  __syncthreads();
  x[threadIdx.x] = place[25000 + blockDim.x - 1 - threadIdx.x];
}
"""


@unittest.skipUnless(torch, "there is no torch with a GPU")
class OfTorch(cases.OnStreams):
    def zeros(self, count, dtype):
        return torch.from_dlpack(peal.zeros(count, dtype))

    def test_tensors_are_arguments(self):
        for dtype in (torch.float32, torch.bfloat16, torch.int64, torch.float16, torch.uint8):
            with self.subTest(dtype):
                x, y = self.zeros(100, dtype), self.zeros(100, dtype)
                self.assertEqual(x.dtype, dtype)
                x.fill_(self.me + 1)
                peal.all_reduce(y, x, "sum")
                y += 1
                self.assertTrue((y == self.n * (self.n + 1) // 2 + 1).all())

    def test_moves_what_numpy_has_no_type_for(self):
        x, y = peal.zeros(64, torch.float8_e4m3fn), peal.zeros(64, torch.float8_e4m3fn)
        source = torch.full((64,), 1.5, device="cuda").to(torch.float8_e4m3fn)
        peal.register_local(source)
        peal.put(y, source, self.next)
        peal.barrier()
        self.assertEqual(set(y.copy_to_host().view(np.uint8).tolist()), {0x3C})
        with self.assertRaisesRegex(peal.ArgumentError, "dtype float8_e4m3fn; this call takes"):
            peal.all_reduce(y, x, "sum")

    def test_follows_the_current_stream(self):
        x, y = self.zeros(1 << 20, torch.float32), self.zeros(1 << 20, torch.float32)
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            torch.cuda._sleep(20_000_000)
            x.fill_(self.me + 1)
            peal.all_reduce(y, x, "sum")
            got = y * 2
        stream.synchronize()
        self.assertTrue((got == self.n * (self.n + 1)).all())

    def test_registers_tensors(self):
        for turn in range(3):
            inbox, source = torch.zeros(5000, device="cuda"), torch.full((5000,), float(self.me + turn), device="cuda")
            peal.register(inbox)
            peal.register_local(source)
            peal.put(inbox, source, self.next)
            peal.barrier()
            self.assertTrue((inbox == self.before + turn).all())
            del inbox, source

    def test_refuses_tensors(self):
        y = self.zeros(6, torch.float32)
        for bad, words in ((torch.zeros(6), "src is on cpu, and this job's arrays are on cuda:"),
                           (torch.zeros(6, device="cuda", requires_grad=True), "src needs a gradient.*detach"),
                           (torch.zeros(12, device="cuda")[::2], "strides .2,.: not contiguous"),
                           (torch.zeros(6, device="cuda", dtype=torch.int32), "dst has dtype float32, src int32")):
            with self.subTest(words), self.assertRaisesRegex(peal.ArgumentError, "peal.put: .*" + words):
                peal.put(y, bad, self.next)

    def test_replays_graphs(self):
        x, y, total = (self.zeros(256, torch.float32) for _ in range(3))
        word = peal.zeros(1, np.uint64)
        x.fill_(self.me + 1)
        graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
        peal.all_reduce(y, x, "sum")  # kernels are loaded before
        peal.put_signal(y, x, self.next, word, 1, "add")
        peal.synchronize()
        peal.barrier()
        with torch.cuda.graph(graph, stream=stream):
            peal.all_reduce(y, x, "sum")
            total += y
            peal.put_signal(y, x, self.next, word, 1, "add")
            peal.barrier()
        turns = int(os.environ.get("PEAL_TEST_REPLAYS", 1000))
        total.zero_()
        for _ in range(turns):
            graph.replay()
        peal.synchronize()
        self.assertTrue((total == turns * self.n * (self.n + 1) // 2).all())
        self.assertTrue((y == self.before + 1).all())
        peal.barrier()
        self.assertEqual(int(word.copy_to_host()[0]), turns + 1)

    def test_refuses_in_a_capture_what_a_graph_cannot_hold(self):
        graph, word = torch.cuda.CUDAGraph(), peal.zeros(1, np.int64)
        kept = peal.zeros(4)
        del kept
        with torch.cuda.graph(graph):
            for call in (lambda: peal.zeros(4), peal.collect, peal.synchronize, word.copy_to_host,
                         lambda: peal.atomic_fetch(word, 0), lambda: peal.register(torch.empty(4, device="cuda"))):
                with self.assertRaisesRegex(peal.ArgumentError, "captures a graph, which this call cannot be part of"):
                    call()
            peal.atomic_add(word, 1, self.me)
        graph.replay()
        peal.quiet()
        self.assertEqual(int(word.copy_to_host()[0]), 1)

    @unittest.skipUnless((NATIVE / "include").exists(), "there are no headers beside libpeal")
    def test_kernels_run_in_the_order_of_streams(self):
        scale, meet = peal.kernel(KERNELS, "scale"), peal.kernel(KERNELS, "meet")
        x, sums, word = self.zeros(1000, torch.float32), self.zeros(4, torch.int32), self.zeros(1, torch.int64)
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            torch.cuda._sleep(20_000_000)
            x.fill_(self.me + 1)
            scale[4, 256](x, 1.5, 1000)
            got = x + 1
        stream.synchronize()
        self.assertTrue((got == 1.5 * (self.me + 1) + 1).all())
        mine = self.zeros(4, torch.int32)
        mine += self.me + 1
        for turn in 1, 2, 3:
            meet[1, 64](peal.context(), peal.world(), sums, mine, word, self.next)
            self.assertTrue((sums == self.n * (self.n + 1) // 2).all())
            self.assertEqual(int(word), turn)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            meet[1, 64](peal.context(), peal.world(), sums, mine, word, self.next)
            scale[1, 32](x, 2, 1000)
        for _ in range(10):
            graph.replay()
        torch.cuda.synchronize()
        self.assertEqual(int(word), 13)
        self.assertTrue((x == 1.5 * (self.me + 1) * 1024).all())
        peal.check()

    @unittest.skipUnless(_nvrtc.is_there(), "there is no NVRTC with CUDA's headers")
    def test_kernels_of_nvrtc_run_in_the_order_of_streams(self):
        tools = _nvrtc.ForGpuByNvrtc(_job.current("test").device.capability), _nvrtc.Compiled
        with unittest.mock.patch.object(_toolchains, "of", lambda place: tools):
            self.test_kernels_run_in_the_order_of_streams()
            fill, x = peal.kernel(SHARED, "fill"), self.zeros(64, torch.int32)
            fill[1, 64, 100 << 10](x)  # more shared memory than a kernel has without asking
            self.assertEqual(x.tolist(), list(range(63, -1, -1)))
            with self.assertRaisesRegex(peal.Error, "kernel.fill.: kernel launch failed: cuFuncSetAttribute: CUDA error"):
                fill[1, 64, 1 << 30](x)

    @unittest.skipUnless((NATIVE / "include").exists(), "there are no headers beside libpeal")
    def test_refuses_arguments_of_kernels(self):
        scale, x = peal.kernel(KERNELS, "scale"), self.zeros(4, torch.float32)
        for arguments, words in (((torch.zeros(4), 1, 4), "x is on cpu, and this job's arrays are on cuda"),
                                 ((x.double(), 1, 4), "x has dtype float64"), ((x, "1", 4), "by is '1'"), ((x, 1), "2 given, 3 wanted")):
            with self.refused(words):
                scale[1, 32](*arguments)
        with self.assertRaisesRegex(peal.Error, "kernel.scale.: kernel launch failed: "):
            scale[1, 32, 1 << 30](x, 1, 4)

    def test_refuses_streams_of_another_gpu(self):
        if torch.cuda.device_count() == 1:
            self.skipTest("there is one GPU")
        with torch.cuda.device((torch.cuda.current_device() + 1) % 2):
            stream = torch.cuda.Stream()
        with self.assertRaisesRegex(peal.ArgumentError, "peal.barrier: the stream is of cuda:.*set_device"):
            peal.barrier(stream=stream)
