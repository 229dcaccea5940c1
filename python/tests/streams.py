# SPDX-License-Identifier: Apache-2.0
"""What all PEs of one job test together on GPUs, in the order of streams: peal-run -n N python streams.py [WORD], of the
cases whose name has the word. Where no GPU and torch are, on a CPU that behaves as one (stand_in.py)."""
import gc
import os
import sys
import tempfile
import unittest
import unittest.mock

import cases
import numpy as np
import peal
import stand_in

PLACE = stand_in.found()


class OnStreams(cases.OnStreams):
    def assert_all(self, array, value):
        self.assertEqual(PLACE.values(array), [value] * array.size)


class Arrays(OnStreams):
    def test_has_the_values_of_its_maker(self):
        self.assertEqual(peal.zeros((2, 3), np.int16).copy_to_host().tolist(), [[0, 0, 0], [0, 0, 0]])
        filled = peal.full((2, 2), self.me + 0.5)
        self.assertEqual((filled.dtype, filled.shape, filled.nbytes, len(filled)), (np.float64, (2, 2), 32, 2))
        self.assertEqual(filled.copy_to_host()[1, 1], self.me + 0.5)
        self.assertEqual(peal.zeros((0, 4), np.float32).copy_to_host().shape, (0, 4))
        half = peal.full(3, [1.5, -2.0, 3.140625], "bfloat16")
        self.assertEqual((PLACE.values(half), half.itemsize), ([1.5, -2.0, 3.140625], 2))
        half.copy_from_host(np.float32(1 + 1 / 256 + 1 / 512))
        self.assert_all(half, 1.0078125)

    def test_parts_are_in_the_same_memory(self):
        array = peal.zeros((4, 6), np.int32)
        array[1].copy_from_host(7)
        array[2, 2:4].copy_from_host([8, 9])
        array[3, 5].copy_from_host(10)
        self.assertEqual(array.copy_to_host().tolist(), [[0] * 6, [7] * 6, [0, 0, 8, 9, 0, 0], [0, 0, 0, 0, 0, 10]])
        self.assertEqual((array[-1].shape, array[3, 5].shape, array[1:3].shape, array[..., :].shape), ((6,), (), (2, 6), (4, 6)))
        part = array[2]
        del array
        gc.collect()
        peal.full((4, 6), -1, np.int32)
        self.assertEqual(part.copy_to_host()[2], 8)

    def test_says_what_a_gpu_does_not(self):
        array = peal.zeros((4, 6), np.int32)
        for call, words in ((array.numpy, "numpy does not reach.*copy_to_host"), (lambda: np.asarray(array), "numpy does not"),
                            (lambda: array.__setitem__(0, 1), "copy_from_host"),
                            (lambda: array[:, 1:3], "not contiguous; take rows"), (lambda: array[[1, 2]], "numbers and slices"),
                            (lambda: array[np.array([1])], "numbers and slices"), (lambda: array[True], "numbers and slices")):
            with self.subTest(words), self.refused("peal.Array: ", words):
                call()
        with self.assertRaises(IndexError):
            array[4]

    def test_is_shared_by_dlpack_without_a_copy(self):
        array = peal.full(8, self.me, np.float32)
        tensor = PLACE.tensor(array)
        tensor[3] = 50
        self.assertEqual(PLACE.values(array), [self.me] * 3 + [50] + [self.me] * 4)
        part = PLACE.tensor(array[2:4])
        part[1] = 60
        self.assertEqual(PLACE.values(array)[3], 60)
        peal.collect()
        del array
        peal.collect()
        others = [peal.full(8, -1, np.float32) for _ in range(3)]
        self.assertEqual(float(tensor[3]), 60)
        del others, tensor, part
        gc.collect()
        self.assertGreaterEqual(peal.collect(), 4)

    def test_refuses_another_device_and_copies(self):
        array = peal.zeros(3)
        for how in {"copy": True}, {"dl_device": (2, 99)}:
            with self.assertRaisesRegex(BufferError, "without a copy"):
                array.__dlpack__(**how)
        array.__dlpack__()  # that nobody takes
        del array
        self.assertGreaterEqual(peal.collect(), 1)

    def test_an_exception_beside_a_tensors_end_is_told(self):
        array = peal.zeros(4, np.float32)
        with self.assertRaisesRegex(TypeError, "int"):
            int(array.__dlpack__())
        with self.assertRaises(TypeError):
            PLACE.tensor(array).sum(no_such_argument=1)
        del array
        gc.collect()
        self.assertGreaterEqual(peal.collect(), 1)

    def test_refuses_values_that_do_not_fit(self):
        kind = np.dtype([("float8_e4m3fn", "u1")])
        for call, words in ((lambda: peal.zeros(3).copy_from_host([1, 2]), "copy_from_host: values for float64 of shape .3,."),
                            (lambda: peal.zeros(3, kind).copy_from_host(1.5), "values for float8_e4m3fn .* is not converted")):
            with self.subTest(words), self.refused(words):
                call()

    def test_reads_and_writes_mapped_peers(self):
        array = peal.full(4, self.me, np.float32)
        there = array.at(self.next)
        if there is None:
            self.skipTest("only a NIC reaches the peers")
        self.assert_all(there, self.next)
        peal.barrier()
        PLACE.fill(there[2:3], 100 + self.me)
        peal.synchronize()
        peal.barrier()
        self.assertEqual(PLACE.values(array)[2], 100 + self.before)


class Tickets(cases.Tickets, OnStreams):
    pass


class Transfers(OnStreams):
    def test_follow_one_another_in_a_stream(self):
        inbox, source, word = peal.zeros(1000, np.float32), peal.zeros(1000, np.float32), peal.zeros(1, np.uint64)
        back = peal.zeros(1000, np.float32)
        for turn in range(1, 6):
            PLACE.fill(source, 10 * turn + self.me)
            peal.put_signal(inbox, source, self.next, word, 1, "add")
            self.assertIsNone(peal.signal_wait(word, turn))
            peal.get(back, inbox, self.next)
            peal.barrier()
            self.assert_all(inbox, 10 * turn + self.before)
            self.assert_all(back, 10 * turn + self.me)
            peal.barrier()  # before the next one is put there

    def test_go_to_the_stream_that_is_named(self):
        streams = [PLACE.stream(), PLACE.stream()]
        words, inbox, source = peal.zeros(2, np.int64), peal.zeros(4, np.int32), peal.full(4, self.me, np.int32)
        peal.signal_wait(words[:1], 5, stream=streams[0])  # for what comes by the other one
        peal.signal(words[1:], 9, self.next, stream=streams[0])
        peal.put(inbox, source, self.next, stream=streams[1])
        peal.signal(words[:1], 5, self.next, stream=streams[1])
        peal.signal_wait(words[1:], 9, "==", stream=streams[1])
        for stream in streams:
            peal.synchronize(stream)
        self.assert_all(inbox, self.before)
        with self.refused("peal.put: stream 'fast': give a stream of torch"):
            peal.put(inbox, source, self.next, stream="fast")

    def test_atomics(self):
        words = peal.zeros(2, np.int64)
        peal.atomic_add(words[:1], 3, 0)
        peal.barrier()
        self.assertEqual(peal.atomic_fetch(words[:1], 0), 3 * self.n)
        peal.barrier()
        if self.me == 0:
            peal.atomic_set(words[1:], -5, self.n - 1)
            peal.quiet()
            self.assertEqual(peal.atomic_compare_swap(words[1:], -5, 9, self.n - 1), -5)
            self.assertEqual(peal.atomic_fetch_add(words[1:], 1, self.n - 1), 9)
            self.assertEqual(peal.atomic_swap(words[1:], 1, self.n - 1), 10)

    def test_refuses_wrong_arguments(self):
        y, x = peal.zeros(6, np.float32), peal.zeros(6, np.float32)
        for call, words in ((lambda: peal.put(y, x, 99), "there is no PE 99"),
                            (lambda: peal.put(y, x, 1 << 32), "pe 4294967296: give a number from"), (lambda: peal.put(y, [1.0], 0), "src is a list"),
                            (lambda: peal.put(y, np.zeros(6, np.float32), 0), "src is an array of numpy's; give .*tensor"),
                            (lambda: peal.put(y, x[:3], 0), "dst has 6 elements, src 3")):
            with self.subTest(words), self.refused("peal.put: ", words):
                call()


@unittest.skipUnless(isinstance(PLACE, stand_in.Numpy), "streams_of_torch.py captures on a GPU")
class Captures(OnStreams):
    def test_refuses_what_a_graph_cannot_hold(self):
        x, word = peal.zeros(4, np.float32), peal.zeros(1, np.int64)
        with PLACE.capture():
            for call in (lambda: peal.zeros(4), lambda: peal.full(4, 1), peal.collect, peal.synchronize, x.copy_to_host,
                         lambda: x.copy_from_host(1), lambda: peal.atomic_fetch(word, 0), lambda: peal.register(x),
                         lambda: peal.unregister(x), lambda: peal.save("/nowhere", x), lambda: peal.load("/nowhere", x),
                         lambda: peal.save_checkpoint("/nowhere", x), lambda: peal.load_checkpoint("/nowhere", x),
                         lambda: peal.world().split(0), lambda: peal.put(x, x, 0, async_op=True),
                         lambda: peal.all_reduce(x, x, "sum", async_op=True)):
                with self.refused("stream captures a graph, which this call cannot be part of; call it before or after"):
                    call()
            peal.put(x, x, self.me)
            peal.barrier()


@unittest.skipUnless(isinstance(PLACE, stand_in.Numpy), "of a GPU its driver decides what fails")
class Driver(OnStreams):
    # Hazard: "cuCtxSynchronize: CUDA error 700", and nobody knew which call had met it.
    def test_what_it_says_has_the_calls_name(self):
        x, device = peal.zeros(4, np.float32), peal._job.current("test").device
        for asked, calls in (
                ("write", {"zeros": lambda: peal.zeros(3), "collect": peal.collect}),
                ("settle", {"copy_to_host": x.copy_to_host, "copy_from_host": lambda: x.copy_from_host(1)}),
                ("is_capturing", {"empty": lambda: peal.empty(3), "synchronize": peal.synchronize, "Team.split": lambda: peal.world().split(0)}),
                ("synchronize", {"save": lambda: peal.save("/nowhere", x), "full": lambda: peal.full(3, 1)})):
            with unittest.mock.patch.object(device, asked, side_effect=peal.Error("cuNothing: CUDA error 700 (CUDA_ERROR)")):
                for name, call in calls.items():
                    with self.subTest(name), self.assertRaisesRegex(peal.Error, f"^peal.{name}: cuNothing: CUDA error 700 .CUDA_ERROR.$"):
                        call()


class Memory(cases.Memory, OnStreams):
    def test_what_is_dropped_under_way_arrives(self):
        for turn in range(1, 4):
            inbox, source = peal.zeros(1 << 16, np.float32), peal.zeros(1 << 16, np.float32)
            PLACE.fill(source, turn)
            peal.put(inbox, source, self.next)
            del source
            other = peal.full(1 << 16, -1, np.float32)
            peal.barrier()
            self.assertEqual(set(PLACE.values(inbox)), {turn})
            self.assertEqual(set(PLACE.values(other)), {-1})
            peal.barrier()


class Collectives(cases.Collectives, OnStreams):
    def test_reductions_of_all_types(self):
        total = self.n * (self.n + 1) // 2
        for dtype in ("int8", "int32", "int64", "uint8", "uint32", "float16", "bfloat16", "float32", "float64"):
            with self.subTest(dtype):
                x, y = peal.full(100, self.me + 1, dtype), peal.zeros(100, dtype)
                peal.all_reduce(y, x, "sum")
                self.assert_all(y, total)
                peal.all_reduce(x, x, "max")
                self.assert_all(x, self.n)

    def test_exchanges(self):
        mine, everyones = peal.full(2, self.me, np.float32), peal.zeros((self.n, 2), np.float32)
        peal.all_gather(everyones, mine)
        self.assertEqual(everyones.copy_to_host()[:, 1].tolist(), list(range(self.n)))
        peal.broadcast(everyones[0], mine, self.n - 1)
        self.assert_all(everyones[0], self.n - 1)
        out, back = peal.full(self.n, self.me, np.complex64), peal.zeros(self.n, np.complex64)
        peal.all_to_all(back, out)
        self.assertEqual(back.copy_to_host().real.tolist(), list(range(self.n)))

    def test_teams(self):
        team = peal.world().split(self.me % 2, key=-self.me)
        x, y = peal.full(1, 1, np.int64), peal.zeros(1, np.int64)
        stream = PLACE.stream()
        peal.all_reduce(y, x, "sum", team, stream=stream)
        team.barrier(stream=stream)
        peal.synchronize(stream)
        self.assert_all(y, team.n_pes)
        team.free()


class Files(OnStreams):
    def test_saves_and_loads(self):
        with tempfile.TemporaryDirectory() as folder:
            mine, array = os.path.join(folder, "mine"), peal.full(1000, self.me, np.float32)
            peal.save(mine, array)
            PLACE.fill(array, -1)
            peal.load(mine, array[10:12], offset=40)
            self.assertEqual(PLACE.values(array[9:13]), [-1, self.me, self.me, -1])

    def test_checkpoints(self):
        shared = os.path.join(tempfile.gettempdir(), f"peal-streams-{os.getppid()}")  # one launcher's
        array = peal.zeros(100, np.float64)
        PLACE.fill(array, self.me)
        peal.save_checkpoint(shared, array)
        PLACE.fill(array, -1)
        peal.load_checkpoint(shared, array)
        self.assert_all(array, self.me)
        peal.barrier()
        peal.synchronize()
        if self.me == 0:
            os.unlink(shared)


class AtTheEnd(OnStreams):
    """What went wrong check() tells until the job ends."""

    def test_names_what_members_call_differently(self):
        if self.n == 1:
            self.skipTest("one PE agrees with itself")
        team = peal.world().split(0)
        x, y = peal.zeros(4, np.float32), peal.zeros(4, np.float32)
        count = 4 if self.me == 0 else 3
        peal.all_reduce(y[:count], x[:count], "sum", team)
        for call in peal.synchronize, peal.check:
            with self.assertRaisesRegex(peal.Error, f"peal.{call.__name__}: PE {self.me}: all_reduce .*other arguments than"):
                call()


def _cases(words):
    import streams_of_torch  # (its cases are skipped where torch has no GPU)

    loader = unittest.defaultTestLoader
    loader.testNamePatterns = [f"*{word}*" for word in words] or None
    ours = [loader.loadTestsFromTestCase(kind) for kind in (Arrays, Transfers, Tickets, Captures, Driver, Memory, Collectives, Files)]
    return unittest.TestSuite([*ours, loader.loadTestsFromModule(streams_of_torch), loader.loadTestsFromTestCase(AtTheEnd)])


if __name__ == "__main__":
    with peal.job(PLACE.device):
        PLACE.begin()
        result = unittest.TextTestRunner(verbosity=1 + (peal.my_pe() == 0)).run(_cases(sys.argv[1:]))
        failed = len(result.failures) + len(result.errors)
        if peal.my_pe() == 0:
            print(f"{result.testsRun - failed - len(result.skipped)} passed, {failed} failed", flush=True)
        if failed:
            raise SystemExit(1)
