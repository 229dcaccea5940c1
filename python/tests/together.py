# SPDX-License-Identifier: Apache-2.0
"""What all PEs of one job test together: peal-run -n N python together.py. Every PE makes the same calls."""
import gc
import mmap
import os
import random
import tempfile
import threading
import unittest
import weakref

import cases
import numpy as np
import peal
from cases import Together
from peal import _job
from peal._library import COMPARISONS, FUNCTIONS, TYPES


class Arrays(Together):
    def test_has_the_values_of_its_maker(self):
        self.assertEqual(peal.zeros((2, 3), np.int16).numpy().tolist(), [[0, 0, 0], [0, 0, 0]])
        filled = peal.full((2, 2), self.me + 0.5)
        self.assertEqual((filled.dtype, filled.shape, filled.size, filled.nbytes, len(filled)), (np.float64, (2, 2), 4, 32, 2))
        self.assertEqual(filled[1, 1], self.me + 0.5)
        self.assertEqual(peal.full(3, 7).dtype, np.int64)
        self.assertEqual(peal.empty((), "uint8").shape, ())
        self.assertEqual(peal.zeros((0, 4), np.float32).numpy().shape, (0, 4))

    def test_is_shared_with_numpy_without_a_copy(self):
        array = peal.zeros(8, np.int32)
        view = np.from_dlpack(array)  # which older numpys take for read-only
        array.numpy()[3] = 5
        array[4:6] = [6, 7]
        self.assertEqual(np.asarray(array).tolist(), [0, 0, 0, 5, 6, 7, 0, 0])
        self.assertEqual(array.__dlpack_device__(), (1, 0))
        self.assertEqual(view.__array_interface__["data"][0], array.address)

    def test_views_keep_the_memory(self):
        view = np.from_dlpack(peal.full(100, self.me, np.int64))
        gc.collect()
        others = [peal.full(100, -1, np.int64) for _ in range(3)]
        self.assertTrue((view == self.me).all())
        del others

    def test_reads_and_writes_mapped_peers(self):
        array = peal.full(4, self.me, np.int32)
        there = array.at(self.next)
        if there is None:
            self.skipTest("only a NIC reaches the peers")
        self.assertEqual(there.tolist(), [self.next] * 4)
        peal.barrier()
        there[2] = 100 + self.me
        peal.barrier()
        self.assertEqual(array[2], 100 + self.before)
        with self.refused("peal.at: there is no PE 99"):
            array.at(99)

    def test_refuses_what_is_no_array(self):
        for arguments, words in (((-1,), "shape .-1,.: no dimension"), (("ab",), "shape 'ab': give"),
                                 ((3, "no such"), "dtype 'no such': give"), ((3, object), "dtype object: Python's objects")):
            with self.refused("peal.zeros: ", words):
                peal.zeros(*arguments)

    def test_names_what_pes_ask_differently(self):
        if self.n == 1:
            self.skipTest("one PE agrees with itself")
        for other in ((3, 2), np.float32), ((2, 3), np.int32), (7, np.float64):
            with self.refused("peal.empty: PE 0 asks for <f4 .2, 3.*, PE 1 for .*all PEs"):
                peal.empty((2, 3) if self.me != 1 else other[0], np.float32 if self.me != 1 else other[1])
                self.assertEqual(other, ((2, 3), np.float32))
            peal.barrier()


class Memory(cases.Memory, Together):
    def test_dropped_in_any_order_it_is_given_back_when_all_have(self):
        everywhere, mine = peal.zeros(self.n, np.int32), peal.zeros(1, np.int32)
        peal.collect()
        arrays = [peal.full(1000, i, np.int32) for i in range(20)]
        random.Random(self.me).shuffle(arrays)
        kept = arrays.pop()  # another one on each PE
        which = int(kept[0])
        del arrays
        mine[0] = which
        peal.all_gather(everywhere, mine)
        self.assertEqual(peal.collect(), 20 - len(set(everywhere.numpy().tolist())))
        self.assertTrue((kept.numpy() == which).all())
        del kept
        self.assertEqual(peal.collect(), len(set(everywhere.numpy().tolist())))

    def test_cycles_are_collected_too(self):
        peal.collect()
        array = peal.zeros(10)
        cycle = [array]
        cycle.append(cycle)
        del array, cycle
        gc.collect()
        self.assertEqual(peal.collect(), 1)


class Transfers(Together):
    def test_put_and_get(self):
        inbox, source = peal.zeros(8, np.float32), np.arange(8, dtype=np.float32) + 10 * self.me
        peal.put(inbox, source, self.next)
        peal.barrier()
        self.assertEqual(inbox[1], 1 + 10 * self.before)
        back = np.zeros(2, np.float32)
        peal.get(back, inbox[2:4], self.next)
        self.assertEqual(back.tolist(), [2 + 10 * self.me, 3 + 10 * self.me])

    def test_signals_come_behind_data(self):
        data, source, signals = peal.zeros(1000, np.int64), peal.zeros(1000, np.int64), peal.zeros(2, np.uint64)
        for turn in range(1, 4):
            source[:] = turn
            peal.put_signal(data, source, self.next, signals[1:2], 1, "add")
            self.assertEqual(peal.signal_wait(signals[1:], turn), turn)
            self.assertTrue((data.numpy() == turn).all())
            peal.barrier()
        peal.signal(signals[:1], 40, self.next)
        self.assertEqual(peal.wait_until(signals[:1], 40, "=="), 40)

    def test_puts_from_memory_of_its_own(self):
        inbox, source = peal.zeros(5000, np.int32), np.full(5000, self.me, np.int32)
        peal.register_local(source)
        peal.put(inbox, source, self.next)
        peal.barrier()
        self.assertTrue((inbox.numpy() == self.before).all())
        peal.unregister_local(source)
        if inbox.at(self.next) is None:
            with self.assertRaisesRegex(peal.Error, "peal.put: src .*peal.register_local"):
                peal.put(inbox, source, self.next)

    def test_a_wait_does_not_hold_up_other_threads(self):
        word = peal.zeros(1, np.int64)
        waiting = threading.Thread(target=peal.signal_wait, args=(word, 1))
        waiting.start()
        self.assertIn(f"PE {self.me}", peal.dump())
        peal.atomic_add(word, 1, self.next)
        peal.quiet()
        waiting.join()
        self.assertEqual(word[0], 1)

    def test_atomics_of_both_widths_and_signs(self):
        for dtype in np.int32, np.uint32, np.int64, np.uint64:
            word = peal.zeros(2, dtype)
            peal.atomic_add(word[:1], 3, 0)
            peal.barrier()
            self.assertEqual(peal.atomic_fetch(word[:1], 0), 3 * self.n)
            peal.barrier()
            if self.me == 0:
                low = -5 if np.dtype(dtype).kind == "i" else 5
                peal.atomic_set(word[1:], 12, self.n - 1)
                self.assertEqual(peal.atomic_fetch_or(word[1:], 3, self.n - 1), 12)
                self.assertEqual(peal.atomic_fetch_and(word[1:], 6, self.n - 1), 15)
                self.assertEqual(peal.atomic_fetch_xor(word[1:], 1, self.n - 1), 6)
                self.assertEqual(peal.atomic_swap(word[1:], low, self.n - 1), 7)
                self.assertEqual(peal.atomic_compare_swap(word[1:], low, 9, self.n - 1), low)
                self.assertEqual(peal.atomic_fetch_add(word[1:], 1, self.n - 1), 9)
            peal.barrier()

    def test_refuses_wrong_arguments(self):
        y, x = peal.zeros(6, np.float32), peal.zeros(6, np.float32)
        word = peal.zeros(1, np.int64)
        for call, words in (
                (lambda: peal.put(y, x, 99), "peal.put: there is no PE 99"),
                (lambda: peal.put(y, x[:3], 0), "peal.put: dst has 6 elements, src 3"),
                (lambda: peal.put(y, word, 0), "peal.put: dst has dtype float32, src int64"),
                (lambda: peal.put(y, x[::2], 0), "peal.put: src of shape .3,. has strides .*: not contiguous; give"),
                (lambda: peal.put(y, [1.0], 0), "peal.put: src is a list; give a peal.Array"),
                (lambda: peal.put(np.zeros(6, np.float32), x, self.next), "peal.put: dst .*not symmetric.*peal.empty"),
                (lambda: peal.get(np.broadcast_to(np.float32(1), (1,)), x[:1], 0), "peal.get: dst is read-only"),
                (lambda: peal.put(y, x, "1"), "peal.put: pe '1': give a whole number"),
                (lambda: peal.put(y, Elsewhere(), 0), "peal.put: src: the memory of device .2, 0. .*give a tensor of a CPU"),
                (lambda: peal.signal(word, 1, 0, "sub"), "peal.signal: op 'sub': give one of 'set', 'add'"),
                (lambda: peal.signal(word, 1 << 70, 0), "peal.signal: value 118.* does not fit int64"),
                (lambda: peal.atomic_add(y, 1, 0), "peal.atomic_add: word has 6 elements of float32; give one integer"),
                (lambda: peal.signal_wait(word, 1, "~"), "peal.signal_wait: compare '~': give")):
            with self.subTest(words), self.refused(words):
                call()


class Elsewhere:
    """An array by DLPack that lies on a GPU."""

    def __dlpack_device__(self):
        return 2, 0

    def __dlpack__(self, **how):
        raise BufferError("the memory of device (2, 0) is not a CPU's")


class Windows(Together):
    def test_memory_of_each_pe_s_own_becomes_symmetric(self):
        file = os.memfd_create("window")
        os.truncate(file, 20000)
        inbox = np.frombuffer(mmap.mmap(file, 20000), np.int32)  # which other processes can map
        os.close(file)
        source = np.full(5000, self.me, np.int32)
        peal.register(inbox)
        peal.register_local(source)
        peal.put(inbox, source, self.next)
        peal.barrier()
        self.assertTrue((inbox == self.before).all())
        peal.unregister_local(source)
        peal.unregister(inbox)
        with self.refused("peal.put: dst .*not symmetric"):
            peal.put(inbox[:4], source[:4], self.next)
        if self.n > 1 and peal.zeros(1).at(self.next) is not None:
            with self.assertRaisesRegex(peal.Error, "peal.register: .*cannot be mapped: .*: mmap a memfd with MAP_SHARED"):
                peal.register(source)

    def test_refuses_what_is_not_there_and_differs(self):
        array = np.zeros(self.me + 1)
        for call, words in ((lambda: peal.unregister(array), "peal.unregister: .*by the array that peal.register.. was given"), (lambda: peal.unregister_local(array), "peal.unregister_local: "),
                            (lambda: peal.register("x"), "peal.register: array is a str; give a peal.Array"),
                            (lambda: peal.register(np.zeros(8)[::2]), "peal.register: array of shape .4,. has strides .*: not contiguous")):
            with self.subTest(words), self.refused(words):
                call()
        if self.n > 1:
            with self.refused("peal.register: PE 1 registers 16 bytes, PE 0 8: all must register the same size, not 0$"):
                peal.register(array)
            peal.barrier()


class Tickets(cases.Tickets, Together):
    def hold(self, word):
        """Calls of this PE wait behind this until its `word` is 1."""
        self.assertEqual(FUNCTIONS["wait_until_on_stream"](word.address, TYPES["int64"], COMPARISONS["=="], 1,
                                                           _job.current("test").own_stream), 0)

    def test_a_ticket_tells_when_its_call_is_done(self):
        word, inbox, source = peal.zeros(1, np.int64), peal.zeros(4, np.int32), np.full(4, self.me, np.int32)
        self.hold(word)
        ticket = peal.put(inbox, source, self.next, async_op=True)
        self.assertFalse(ticket.done())
        self.assertEqual(repr(ticket), "peal.Ticket(put, under way)")
        word[0] = 1
        ticket.wait()
        self.assertTrue(ticket.done())
        peal.barrier()
        self.assertEqual(inbox[3], self.before)

    # Hazard: numpy gave the source's memory to another array while the put was still to come.
    def test_what_a_call_needs_stays_until_it_is_done(self):
        word, inbox, source = peal.zeros(1, np.int64), peal.zeros(4, np.int32), np.full(4, self.me, np.int32)
        there = weakref.ref(source)
        self.hold(word)
        peal.put(inbox, source, self.next, async_op=True)
        del source
        gc.collect()
        self.assertIsNotNone(there())
        word[0] = 1
        peal.synchronize()
        peal.collect()
        self.assertIsNone(there())
        peal.barrier()
        self.assertEqual(inbox[0], self.before)

    def test_many_threads_look_at_one_ticket(self):
        word, inbox = peal.zeros(1, np.int64), peal.zeros(4, np.int32)
        self.hold(word)
        ticket = peal.put(inbox, np.full(4, self.me, np.int32), self.next, async_op=True)
        looks = [threading.Thread(target=ticket.wait) for _ in range(4)]
        for one in looks:
            one.start()
        while not ticket.done():
            word[0] = 1
        for one in looks:
            one.join()
        self.assertEqual(repr(ticket), "peal.Ticket(put, done)")


class Reports(Together):
    def test_nothing_has_failed(self):
        self.assertIsNone(peal.failure())
        self.assertEqual(peal.counters(), [])  # without PEAL_RECORD
        self.assertRegex(peal.dump(), rf"PE {self.me}\b")


class Files(Together):
    def test_saves_and_loads(self):
        with tempfile.TemporaryDirectory() as folder:
            mine, array = os.path.join(folder, "mine"), peal.full(1000, self.me, np.int32)
            peal.save(mine, array)
            array[:] = -1
            peal.load(mine, array[10:12], offset=40)
            self.assertEqual(array[9:13].tolist(), [-1, self.me, self.me, -1])
            with self.assertRaisesRegex(peal.Error, "peal.load: .*no such"):
                peal.load(os.path.join(folder, "no such"), array)

    def test_checkpoints(self):
        shared = os.path.join(tempfile.gettempdir(), f"peal-{os.getppid()}")  # one peal-run's
        array = peal.full(100, self.me, np.float64)
        peal.save_checkpoint(shared, array)
        array[:] = -1
        peal.load_checkpoint(shared, array)
        self.assertTrue((array.numpy() == self.me).all())
        peal.barrier()
        if self.me == 0:
            os.unlink(shared)


class Collectives(cases.Collectives, Together):
    def test_reductions(self):
        x, y = peal.full(100, self.me + 1, np.float32), peal.zeros(100, np.float32)
        total = self.n * (self.n + 1) // 2
        peal.all_reduce(y, x, "sum")
        self.assertTrue((y.numpy() == total).all())
        peal.all_reduce(x, x, "max")
        self.assertTrue((x.numpy() == self.n).all())
        numbers, result = peal.full(3, self.me + 1, np.int32), peal.full(3, -1, np.int32)
        peal.reduce(result, numbers, "sum", self.n - 1)
        self.assertEqual(result[0], total if self.me == self.n - 1 else -1)
        peal.scan(result, numbers, "sum")
        self.assertEqual(result[2], (self.me + 1) * (self.me + 2) // 2)
        peal.exclusive_scan(result, numbers, "sum")
        self.assertTrue(self.me == 0 or result[0] == self.me * (self.me + 1) // 2)
        parts, mine = peal.full(2 * self.n, self.me, np.uint64), peal.zeros(2, np.uint64)
        peal.reduce_scatter(mine, parts, "or")
        self.assertEqual(mine[0], [0, 0, 1, 3, 3][self.n])

    def test_exchanges_of_any_dtype(self):
        dtype = np.dtype([("x", "f4"), ("y", "i2")])
        one, all_of_them = peal.zeros(2, dtype), peal.zeros((self.n, 2), dtype)
        one[1] = (1.5, self.me)
        peal.all_gather(all_of_them, one)
        self.assertEqual(all_of_them.numpy()["y"][:, 1].tolist(), list(range(self.n)))
        peal.broadcast(all_of_them[0], one, self.n - 1)
        self.assertEqual(all_of_them[0, 1]["y"], self.n - 1)
        out, back = peal.full(self.n, self.me, np.complex64), peal.zeros(self.n, np.complex64)
        peal.all_to_all(back, out)
        self.assertEqual(back.numpy().real.tolist(), list(range(self.n)))

    def test_teams(self):
        everyone = peal.world()
        self.assertEqual((everyone.my_pe, everyone.n_pes, everyone.world_pe(0)), (self.me, self.n, 0))
        team = everyone.split(self.me % 2, key=-self.me)
        x, y = peal.full(1, 1, np.int64), peal.zeros(1, np.int64)
        peal.all_reduce(y, x, "sum", team)
        self.assertEqual(y[0], team.n_pes)
        self.assertEqual(team.world_pe(team.n_pes - 1), self.me % 2)
        team.barrier()
        team.sync()
        team.free()
        self.assertIsNone(everyone.split(-1))
        with self.assertRaisesRegex(peal.Error, "peal.all_reduce: the team has ended"):
            peal.all_reduce(y, x, "sum", team)
        with self.refused("peal.Team.free: the team of all PEs"):
            everyone.free()

    def test_refuses_wrong_arguments(self):
        x, y, z = peal.zeros(4, np.float32), peal.zeros(4, np.float32), peal.zeros(4, np.complex64)
        for call, words in (
                (lambda: peal.all_reduce(y, x, "xor"), "peal.all_reduce.*bit_xor is not an operation of f32"),
                (lambda: peal.all_reduce(y, x, "mean"), "peal.all_reduce: op 'mean': give one of 'sum'"),
                (lambda: peal.all_reduce(z, z, "sum"), "peal.all_reduce: dst has dtype complex64; this call takes int8"),
                (lambda: peal.all_reduce(y, x[:3], "sum"), "peal.all_reduce: dst has 4 elements, src 3; .*wants 3"),
                (lambda: peal.all_reduce(y, np.zeros(4, np.float32), "sum"), "peal.all_reduce.*src.*not symmetric"),
                (lambda: peal.broadcast(y, x, 99), "peal.broadcast.*no root 99")):
            with self.subTest(words), self.refused(words):
                call()

    def test_names_what_members_call_differently(self):
        if self.n == 1:
            self.skipTest("one PE agrees with itself")
        x, y = peal.zeros(4, np.float32), peal.zeros(4, np.float32)
        count = 4 if self.me == 0 else 3
        with self.refused("peal.all_reduce.*count 4, PE 1 has 3"):
            peal.all_reduce(y[:count], x[:count], "sum")
        ints = peal.zeros(4, np.int32)
        other = (ints, ints) if self.me == 1 else (y, x)
        for call in (lambda: peal.all_reduce(y, x, "max" if self.me == 1 else "sum"), lambda: peal.all_reduce(*other, "sum"),
                     lambda: peal.broadcast(y, x, int(self.me == 1)),
                     lambda: peal.broadcast(y[self.me % 2:][:1], x[:1], 0)):
            with self.refused("peal.*PE 0.*PE 1 has|peal.*PE 1 .*PE 0"):
                call()
        peal.all_reduce(y, x, "sum")


if __name__ == "__main__":
    with peal.job():
        unittest.main(argv=["together"], verbosity=1 + (peal.my_pe() == 0))
