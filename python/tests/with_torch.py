# SPDX-License-Identifier: Apache-2.0
"""peal.torch, on a GPU or a CPU: peal-run -n N python with_torch.py, where torch is."""
import ctypes
import os
import tempfile
import threading
import time
import unittest

import cases
import peal
import torch
import torch.distributed as dist
import torch.distributed._symmetric_memory as symm_mem

import peal.torch as pt
from peal.torch import _extension

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


class Operations(cases.OnStreams):
    def test_collectives_and_their_gradients(self):
        me, n = self.me, self.n
        x = torch.arange(2.0 * n, device=DEVICE).reshape(2 * n, 1).add(100 * me).requires_grad_()
        everyone = [torch.arange(2.0 * n, device=DEVICE).reshape(2 * n, 1) + 100 * pe for pe in range(n)]
        weights = torch.rand(2 * n, 1, device=DEVICE)
        total = sum(everyone)
        for made, wanted in (
                (pt.all_reduce(x), total), (pt.all_gather(x), torch.cat(everyone)),
                (pt.reduce_scatter(x), total[2 * me:2 * me + 2]), (pt.broadcast(x, n - 1), everyone[-1]),
                (pt.all_to_all(x), torch.cat([one[2 * me:2 * me + 2] for one in everyone])),
                (pt.all_reduce(x.detach(), "max"), everyone[-1])):
            self.assertTrue(torch.equal(made, wanted), (made, wanted))
        # The gradient of sum(w * f(x)) is what f's transpose makes of all members' w.
        got, = torch.autograd.grad((pt.all_reduce(x) * weights).sum(), x)
        self.assertTrue(torch.allclose(got, pt.all_reduce(weights)))
        got, = torch.autograd.grad((pt.all_to_all(x) * weights).sum(), x)
        self.assertTrue(torch.equal(got, pt.all_to_all(weights)))
        got, = torch.autograd.grad(pt.all_gather(x).sum(), x)
        self.assertTrue((got == n).all())
        got, = torch.autograd.grad(pt.reduce_scatter(x).sum(), x)
        self.assertTrue((got == 1).all())
        got, = torch.autograd.grad((pt.broadcast(x, 0) * weights).sum(), x)
        self.assertTrue(torch.allclose(got, pt.all_reduce(weights) * (me == 0)))

    def test_refuses_shapes_and_gradients(self):
        with self.refused("peal.torch.all_to_all: x of shape", f"no multiple of the group's {self.n} members"):
            pt.all_to_all(torch.ones((self.n + 1,) if self.n > 1 else (), device=DEVICE))
        x = torch.ones(3, device=DEVICE, requires_grad=True)
        with self.refused("all_reduce: op 'max' has no gradient"):
            pt.all_reduce(x, "max").sum().backward()
        with self.refused("peal.torch.put: dst of shape .3,. is not in symmetric memory"):
            pt.put(torch.ones(3, device=DEVICE), pt.zeros(3), self.next)
        with self.refused("group 'no such group'"):
            pt.all_reduce(x, "sum", "no such group")

    def test_compiled_code_keeps_the_order(self):
        inbox, word, src = pt.zeros(8), pt.zeros(1, dtype=torch.int64), pt.zeros(8)

        @torch.compile(fullgraph=True)
        def step(x, inbox, word, src, turn: int):
            src.copy_(x * 2)
            pt.put_signal(inbox, src, self.next, word, turn, "set")
            pt.signal_wait(word, turn, [inbox])
            y = inbox + pt.all_reduce(x)
            pt.barrier([inbox, word])
            return y

        for turn in 1, 2, 3:
            y = step(torch.full((8,), float(self.me + turn), device=DEVICE), inbox, word, src, turn)
            wanted = 2 * (self.before + turn) + self.n * turn + self.n * (self.n - 1) // 2
            self.assertTrue((y == wanted).all(), (turn, y, wanted))

    def test_compiled_code_makes_the_calls_of_all_members(self):
        # A backward that differs between the members, a result that nobody uses, sizes that depend on their number.
        @torch.compile(fullgraph=True)
        def step(x):
            pt.all_reduce(x)
            pt.broadcast(x, 0)
            return (pt.broadcast(x, self.n - 1) + pt.reduce_scatter(pt.all_gather(x))).sum()

        x = torch.full((4,), float(self.me + 1), device=DEVICE, requires_grad=True)
        for _ in range(2):
            y = step(x)
            self.assertEqual(float(y), 4 * self.n + 4 * self.n * (self.me + 1))
            got, = torch.autograd.grad(y, x)
            self.assertTrue((got == self.n + self.n * (self.me == self.n - 1)).all(), got)
        self.assertEqual(peal.barrier(), None)  # all have made as many

    def test_refuses_groups_that_overlap(self):
        if self.n < 3:
            self.skipTest("two groups want three PEs")
        groups = [dist.new_group([0, 1]), dist.new_group([1, 2])]
        if self.me != 1:  # PE 1 is in both, and makes one call
            groups = groups[self.me == 2:]
        if self.me == 2:
            with self.assertRaisesRegex(peal.Error, "has PEs .1, 2., and of these .2. have called for it together.*what new_group"):
                pt.team(groups[0])
        elif self.me > 2:
            self.assertIsNone(pt.team(groups[0]))
        else:
            self.assertEqual(pt.team(groups[0]).n_pes, 2)
        self.assertTrue((pt.all_reduce(torch.ones(3, device=DEVICE)) == self.n).all())

    # Hazard: a group's larger call made symmetric memory, which is collective among all PEs, and waited for those of none.
    def test_a_group_does_not_wait_for_the_others(self):
        if self.n < 3:
            self.skipTest("some and another one are three PEs")
        last, some = self.me == self.n - 1, list(range(self.n - 1))
        group = dist.new_group(some)
        if last:
            self.assertIsNone(pt.team(group, staging=3 << 20))
            with self.refused("staging 'x': give a whole number"):
                pt.team(None, staging="x")
        else:
            team, name = pt.team(group, staging=3 << 20), group.group_name
            self.assertEqual(team.n_pes, self.n - 1)
            for size in 1, 1000, 3 << 18:  # floats; the last takes all
                self.assertTrue((pt.all_reduce(torch.ones(size, device=DEVICE), "sum", name) == self.n - 1).all())
            for call in (lambda: pt.all_reduce(torch.ones((3 << 18) + 1, device=DEVICE), "sum", name),
                         lambda: pt.all_gather(torch.ones(3 << 18, device=DEVICE), name)):
                with self.refused(r"symmetric memory for 3145728; call peal.torch.team.group, staging=\d+. on all PEs before"):
                    call()
            with self.refused("team: staging 3145729: the team of group .* is there already, with 3145728"):
                pt.team(group, staging=(3 << 20) + 1)
            self.assertIs(pt.team(group, staging=1), team)
        self.assertTrue((pt.all_reduce(torch.ones(1 << 20, device=DEVICE)) == self.n).all())  # of all grows

    def test_refuses_tensors_of_another_device(self):
        with self.refused("all_reduce: x is on meta, and this job's arrays are on"):
            pt._ops._through("all_reduce", torch.ones(3, device="meta"), (3,), "", None)
        with self.refused("peal.put: src is on meta, and this job's arrays are on"):
            peal.put(pt.zeros(3), torch.ones(3, device="meta"), self.me)
        with self.refused("all_gather: members 77: group '' has"):
            torch.ops.peal.all_gather(torch.ones(3, device=DEVICE), 77)

    @unittest.skipUnless(DEVICE == "cuda", "graphs are a GPU's")
    def test_graphs_replay(self):
        x = torch.zeros(1000, device=DEVICE)
        with self.refused("all_reduce: the current stream captures a graph, and there is no symmetric memory for"):
            with torch.cuda.graph(torch.cuda.CUDAGraph()):
                pt.all_reduce(torch.empty(1 << 24, device=DEVICE))
        pt.all_reduce(x), pt.all_to_all(x[:10 * self.n])
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = pt.all_to_all(pt.all_reduce(x)[:10 * self.n])
        for turn in range(1000):
            x.fill_(turn + self.me)
            graph.replay()
        self.assertTrue((y == 999 * self.n + self.n * (self.n - 1) // 2).all())


class Layers(cases.OnStreams):
    def routed(self, dispatcher, tokens):
        torch.manual_seed(self.me + tokens)
        experts = torch.stack([torch.randperm(dispatcher.n_experts)[:dispatcher.top_k] for _ in range(tokens)]).to(DEVICE)
        x = torch.randn(tokens, dispatcher.hidden, device=DEVICE, requires_grad=True)
        return experts, x, torch.rand(tokens, dispatcher.top_k, device=DEVICE, requires_grad=True)

    def test_a_mixture_of_experts_is_as_on_one_pe(self):
        for capacity in None, 50 * 3 * self.n // 2 + 200:
            dispatcher = pt.Dispatcher(50, 16, 4 * self.n, 3, torch.float32, capacity=capacity)
            factors = torch.arange(1.0, 4 * self.n + 1, device=DEVICE)  # what expert i multiplies by
            mine = factors[4 * self.me:4 * self.me + 4]
            for tokens in 50, 31 - self.me, 1:
                experts, x, weights = self.routed(dispatcher, tokens)
                routing = dispatcher.route(experts)
                rows = dispatcher.dispatch(x, routing)
                total = int(routing.total)
                self.assertEqual(int(routing.per_expert.sum()), total)
                self.assertTrue((rows[total:] == 0).all())
                by = torch.zeros(dispatcher.capacity, device=DEVICE)
                by[:total] = torch.repeat_interleave(mine, routing.per_expert)
                got = dispatcher.combine((rows * by[:, None]) ** 2, weights, routing)
                wanted = ((x[:, None, :] * factors[experts][..., None]) ** 2 * weights[..., None]).sum(1)
                self.assertTrue(torch.allclose(got, wanted, rtol=1e-3), (got - wanted).abs().max())
                upstream = torch.randn_like(got)
                for a, b in zip(torch.autograd.grad(got, (x, weights), upstream), torch.autograd.grad(wanted, (x, weights), upstream)):
                    self.assertTrue(torch.allclose(a, b, rtol=1e-3, atol=1e-2), (a - b).abs().max())

    def test_choices_of_no_expert_are_left_out(self):
        dispatcher = pt.Dispatcher(6, 4, 2 * self.n, 2, torch.float32)
        experts = torch.tensor([[-1, 0], [2 * self.n - 1, -1], [-1, -1], [1, 2 * self.n], [0, 1], [-5, 2 * self.n - 1]], device=DEVICE)
        for _ in range(2):
            x = torch.randn(6, 4, device=DEVICE, requires_grad=True)
            routing = dispatcher.route(experts)
            y = dispatcher.combine(dispatcher.dispatch(x, routing), torch.ones(6, 2, device=DEVICE), routing)
            kept = torch.tensor([[1.0], [1], [0], [1], [2], [1]], device=DEVICE)
            self.assertTrue(torch.equal(y, x * kept))
            self.assertTrue(torch.equal(torch.autograd.grad(y.sum(), x)[0], kept.expand(6, 4)))

    def test_refuses_what_a_dispatcher_was_not_made_for(self):
        dispatcher = pt.Dispatcher(4, 8, self.n, 1, torch.float32)
        routing = dispatcher.route(torch.zeros(4, 1, dtype=torch.int64, device=DEVICE))
        with self.refused("route: experts has shape .5, 1.; give .tokens, 1. with up to 4"):
            dispatcher.route(torch.zeros(5, 1, dtype=torch.int64, device=DEVICE))
        with self.refused("dispatch: tokens has shape .3, 8.; give .4, 8."):
            dispatcher.dispatch(torch.zeros(3, 8, device=DEVICE), routing)
        with self.refused("dispatch: a tensor of torch.float16"):
            dispatcher.dispatch(torch.zeros(4, 8, device=DEVICE, dtype=torch.float16), routing)
        if self.n > 1:
            with self.refused("n_experts 1 is no multiple of the group's"):
                pt.Dispatcher(4, 8, 1, 1, torch.float32)

    def test_ring_attention_is_as_on_one_pe(self):
        ring = pt.Ring((2, 5, 8), torch.float64)
        q = torch.randn(5, 8, dtype=torch.float64, device=DEVICE)
        kv = torch.randn(2, 5, 8, dtype=torch.float64, device=DEVICE, requires_grad=True)
        everyone_q = pt.all_gather(q).view(self.n, 5, 8)
        whole = torch.cat(list(pt.all_gather(kv.detach()).view(self.n, 2, 5, 8)), 1).requires_grad_()
        outputs = [torch.softmax(one @ whole[0].T, 1) @ whole[1] for one in everyone_q]
        wanted, = torch.autograd.grad(sum(one.sum() for one in outputs), whole)
        for _ in range(3):
            block, numerator, denominator = kv, 0, 0
            for step in range(ring.size):
                coming = ring.shift(block) if step + 1 < ring.size else None
                scores = (q @ block[0].T).exp()
                numerator, denominator = numerator + scores @ block[1], denominator + scores.sum(1, keepdim=True)
                block = coming.wait() if coming else None
            out = numerator / denominator
            self.assertTrue(torch.allclose(out, outputs[self.me]))
            got, = torch.autograd.grad(out.sum(), kv)
            self.assertTrue(torch.allclose(got, wanted[:, 5 * self.me:5 * self.me + 5]))
        # Causal: this PE leaves out the blocks of those behind it, and adds 0 of them.
        block, out = kv, 0
        for step in range(ring.size):
            coming = ring.shift(block) if step + 1 < ring.size else None
            out = out + block.sum() * (1 if step <= self.me else 0)
            block = coming.wait() if coming else None
        got, = torch.autograd.grad(out, kv)
        self.assertTrue((got == self.n - self.me).all())
        with self.refused("Ring.shift: a block of shape .3,."):
            ring.shift(torch.zeros(3, device=DEVICE))


class SymmetricMemory(cases.OnStreams):
    def tensor(self, *shape, dtype=torch.int64):
        return symm_mem.empty(*shape, dtype=dtype, device=torch.device(DEVICE, torch.cuda.current_device()) if DEVICE == "cuda" else DEVICE)

    def test_tensors_that_lie_at_different_places(self):
        before = self.tensor(1 + 100 * self.me)  # this PE's own affair
        x = self.tensor(4, 100)
        memory = symm_mem.rendezvous(x, dist.group.WORLD)
        self.assertEqual((memory.rank, memory.world_size, memory.buffer_size >= 3200), (self.me, self.n, True))
        self.assertEqual(symm_mem.rendezvous(x, dist.group.WORLD).signal_pad_ptrs, memory.signal_pad_ptrs)
        x.fill_(self.me)
        memory.barrier()
        if memory.buffer_ptrs[self.next] != 0:
            theirs = memory.get_buffer(self.next, (4, 100), torch.int64)
            self.assertTrue((theirs == self.next).all())
            memory.barrier(channel=1)
            theirs.fill_(1000 + self.me)
            memory.put_signal(self.next, channel=2)
            memory.wait_signal(self.before, channel=2)
            self.assertTrue((x == 1000 + self.before).all())
        memory.barrier()
        self.assertTrue((memory.get_signal_pad(self.me) == 0).all())
        del before

    def test_pads_are_a_group_s_own(self):
        if self.n < 3:
            self.skipTest("two groups want three PEs")
        groups = [dist.new_group([0, 1]), dist.new_group([1, 2])]
        x = self.tensor(10)
        mine = [symm_mem.rendezvous(x, group) for i, group in enumerate(groups) if self.me in (i, i + 1)]
        for _ in range(3):
            for memory in mine:
                memory.barrier()
        if self.me == 1:
            self.assertNotEqual(mine[0].signal_pad_ptrs[mine[0].rank], mine[1].signal_pad_ptrs[mine[1].rank])

    def test_mistakes(self):
        x = self.tensor(10)
        memory = symm_mem.rendezvous(x, dist.group.WORLD)
        with self.refused("SymmetricMemory.barrier: channel 10000000: there are"):
            memory.barrier(channel=10000000)
        with self.refused("SymmetricMemory.put_signal: rank 77: the group's ranks are 0 to"):
            memory.put_signal(77)
        with self.refused("rendezvous: the tensor is not of symm_mem.empty"):
            symm_mem.rendezvous(torch.empty(10, device=DEVICE), dist.group.WORLD)
        with self.assertRaisesRegex((peal.Error, torch.OutOfMemoryError), "no room for .* in .* of symmetric memory set aside"):
            self.tensor(1 << 33)

    def beside_python(self, function, argument):
        """function(argument) of a thread that knows nothing of Python, while this one holds the interpreter's lock."""
        libc = ctypes.PyDLL(None)  # whose calls do not let it go
        thread, answer, until = ctypes.c_ulong(), ctypes.c_void_p(), (ctypes.c_long * 2)(int(time.time()) + 30, 0)
        self.assertEqual(libc.pthread_create(ctypes.byref(thread), None, function, ctypes.c_void_p(argument)), 0)
        self.assertEqual(libc.pthread_timedjoin_np(thread, ctypes.byref(answer), ctypes.byref(until)), 0,
                         "it waits for the interpreter's lock")
        return answer.value

    # Hazard: torch's pool calls both under a lock of its own. One thread held that and waited for the interpreter's lock,
    # another dropped a tensor, with the interpreter's lock, and waited for the pool's.
    def test_allocating_and_dropping_run_no_python(self):
        library = ctypes.CDLL(_extension.module().__file__)
        symm_mem.rendezvous(self.tensor(10), dist.group.WORLD)  # there is memory
        address = self.beside_python(library.peal_symmetric_alloc, 1000)
        self.assertIsNotNone(address)
        if DEVICE == "cpu":
            memory = symm_mem.rendezvous(torch.frombuffer((ctypes.c_uint8 * 1000).from_address(address), dtype=torch.uint8),
                                         dist.group.WORLD)
            del memory
        self.assertEqual(self.beside_python(library.peal_symmetric_free, address), address)
        self.assertIsNone(_extension.module().around(address))
        self.assertIsNone(self.beside_python(library.peal_symmetric_alloc, 1 << 40))

    # Hazard: what a dropped tensor's Handle had was given back when somebody next ran Python.
    def test_memory_that_has_met_is_used_again(self):
        peal.torch.reserve(64 << 20 if DEVICE == "cuda" else 1 << 20)
        for turn in range(200):
            x = self.tensor(1 << 16)
            memory = symm_mem.rendezvous(x, dist.group.WORLD)
        self.assertEqual((memory.rank, turn), (self.me, 199))
        place = x.data_ptr()
        del x
        if DEVICE == "cpu":  # torch's pool between has its own way
            self.assertNotEqual(self.tensor(1 << 16).data_ptr(), place)  # the handle has it

    # The same hazard as it came about: one thread in torch's pool, one that drops tensors.
    @unittest.skipUnless(DEVICE == "cuda", "the pool is a GPU's")
    def test_threads_that_allocate_and_drop_do_not_block_one_another(self):
        self.tensor(10)
        ended = []

        def symmetric():
            if DEVICE == "cuda":
                torch.cuda.set_device(peal.device())  # which is each thread's own
            held = []
            for i in range(2000):
                held.append(self.tensor(1 << 10 + i % 8))
                if len(held) > 16:
                    held.clear()
                    torch.cuda.empty_cache()
            ended.append(True)

        one = threading.Thread(target=symmetric, daemon=True)
        one.start()
        until = time.monotonic() + 120
        while one.is_alive() and time.monotonic() < until:
            held = [torch.empty(1 << 20, device=DEVICE) for _ in range(8)]
            held.clear()
            torch.cuda.empty_cache()
        self.assertEqual(ended, [True])

    def test_what_is_dropped_is_used_again(self):
        for turn in range(300):  # more than an arena has, and in another order on each PE
            held = [self.tensor(1 << 17) for _ in range(1 + (turn + self.me) % 3)]
        self.assertEqual(len(held), 1 + (299 + self.me) % 3)

    @unittest.skipUnless(DEVICE == "cuda", "torch's kernels are a GPU's")
    def test_torch_s_own_kernels(self):
        x = self.tensor(1 << 14, dtype=torch.bfloat16)
        memory = symm_mem.rendezvous(x, dist.group.WORLD)
        if not all(memory.buffer_ptrs):
            self.skipTest("a peer's memory is not mapped")
        name = dist.group.WORLD.group_name
        wanted = self.n * (self.n + 1) // 2
        for call in torch.ops.symm_mem.one_shot_all_reduce, torch.ops.symm_mem.two_shot_all_reduce_:
            x.fill_(self.me + 1)
            memory.barrier()
            self.assertTrue((call(x, "sum", name) == wanted).all())
            memory.barrier()


if __name__ == "__main__":
    with peal.job(DEVICE):
        if DEVICE == "cuda":
            torch.cuda.set_device(peal.device())
        dist.init_process_group("gloo", init_method=f"file://{tempfile.gettempdir()}/peal-torch-{os.getppid()}",
                                rank=peal.my_pe(), world_size=peal.n_pes())
        symm_mem.set_backend("PEAL")
        ran = unittest.main(verbosity=1 + (peal.my_pe() == 0), exit=False, failfast=True)
        dist.destroy_process_group()
        if not ran.result.wasSuccessful():
            raise SystemExit(1)
