# SPDX-License-Identifier: Apache-2.0
"""What together.py, streams.py and streams_of_torch.py have in common: how a case begins, and cases of them all."""
import random
import unittest

import numpy as np
import peal


class Together(unittest.TestCase):
    """A case begins when all PEs are there."""

    def setUp(self):
        self.me, self.n = peal.my_pe(), peal.n_pes()
        self.next, self.before = (self.me + 1) % self.n, (self.me - 1) % self.n
        peal.barrier()

    def refused(self, *words):
        return self.assertRaisesRegex(peal.ArgumentError, ".*".join(words))


class OnStreams(Together):
    """A case begins when what was before it is done."""

    def setUp(self):
        super().setUp()
        peal.synchronize()


class Memory:
    """Cases for a Together."""

    def test_does_not_grow(self):
        chance = random.Random(self.me)
        peal.collect()
        held, seen = [], set()
        for _ in range(100):
            held.append(peal.empty(4096, np.uint8))
            seen.add(held[-1].address)
            if len(held) > 8:
                held.pop(chance.randrange(8))
        self.assertLess(len(seen), 70)


class Collectives:
    """Cases for a Together."""

    def test_blocks_of_any_length(self):
        # PE i sends j + 1 elements of value 10 * i + j to PE j.
        ends = np.cumsum([0] + [j + 1 for j in range(self.n)])
        counts, mine = np.arange(1, self.n + 1, dtype=np.int64), np.full(self.n, self.me + 1, np.int64)
        sent = peal.full(self.n, counts), peal.full(self.n, ends[:-1])
        received = peal.full(self.n, mine), peal.full(self.n, np.arange(self.n) * (self.me + 1))
        src = peal.full(ends[-1], np.repeat(10 * self.me + np.arange(self.n), counts), np.float32)
        back = peal.full(self.n * self.n, -1, np.float32)
        peal.all_to_all_v(back, src, received, sent)
        length = self.n * (self.me + 1)
        self.assertEqual(back.copy_to_host().tolist(), np.repeat(10 * np.arange(self.n) + self.me, mine).tolist() +
                         [-1] * (self.n * self.n - length))
        for given, words in ((sent[0], "sent peal.Array.*give .counts, displacements"),
                             ((sent[0], back), "sent's displacements has .* elements of float32; give one int64 for each")):
            with self.refused("peal.all_to_all_v: ", words):
                peal.all_to_all_v(back, src, received, given)


class Tickets:
    """Cases for a Together."""

    def test_calls_are_under_way_until_they_are_waited_for(self):
        x, y, inbox = peal.full(100, self.me + 1, np.float32), peal.zeros(100, np.float32), peal.zeros(100, np.float32)
        signals, parts = peal.zeros(2, np.int64), peal.zeros((self.n, 100), np.float32)
        under_way = [
            peal.all_reduce(y, x, "sum", async_op=True), peal.put(inbox, x, self.next, async_op=True),
            peal.put_signal(inbox, x, self.next, signals[:1], 1, "add", async_op=True),
            peal.signal(signals[:1], 1, self.next, "add", async_op=True), peal.atomic_add(signals[1:], 5, self.next, async_op=True),
            peal.all_gather(parts, x, async_op=True), peal.quiet(async_op=True), peal.world().barrier(async_op=True)]
        for one in reversed(under_way):
            one.wait()
        self.assertTrue(all(one.done() for one in under_way))
        self.assertEqual(repr(under_way[0]), "peal.Ticket(all_reduce, done)")
        self.assertEqual(signals.copy_to_host().tolist(), [2, 5])
        self.assertEqual(y.copy_to_host().tolist(), [self.n * (self.n + 1) // 2] * 100)
        self.assertEqual(inbox.copy_to_host()[99], self.before + 1)
        self.assertEqual(parts.copy_to_host()[:, 3].tolist(), list(range(1, self.n + 1)))
        self.assertIsNone(peal.put(inbox, x, self.next))
        under_way[0].wait()  # again

    def test_refused_calls_have_no_ticket(self):
        x, y = peal.zeros(4, np.float32), peal.zeros(4, np.float32)
        for call, words in ((lambda: peal.put(y, x, 99, async_op=True), "peal.put: there is no PE 99"),
                            (lambda: peal.put(y, x[:3], 0, async_op=True), "peal.put: dst has 4 elements, src 3"),
                            (lambda: peal.all_reduce(y, x, "xor", async_op=True), "peal.all_reduce.*bit_xor is not")):
            with self.subTest(words), self.refused(words):
                call()

    def test_many_leave_nothing(self):
        x, inbox = peal.full(10, self.me, np.int32), peal.zeros(10, np.int32)
        for _ in range(300):
            last = peal.put(inbox, x, self.next, async_op=True)
        last.wait()
        peal.collect()
        self.assertEqual(peal._job.current("test").tickets._pending, [])
        peal.barrier()
        self.assertEqual(inbox.copy_to_host().tolist(), [self.before] * 10)
