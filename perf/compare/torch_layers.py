#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""peal.torch beside torch.distributed (NCCL) on GPUs: peal-run -n 2 python torch_layers.py

Mixture of experts: the same routing, tokens and experts (none: rows come back as they went) by peal.torch.Dispatcher, also
in a CUDA graph, and by torch.distributed.all_to_all_single, which wants its counts on the host. Operations on 8 bytes and on
64 MiB. Symmetric memory: barrier. Each line is a median over rounds in which the ways take turns; values are compared."""
import json
import os
import statistics
import tempfile
import time

import peal
import torch
import torch.distributed as dist
import torch.distributed._symmetric_memory as symm_mem

import peal.torch as pt

ROUNDS = 7


def timed(call, times):
    """Microseconds a call, the GPU's work included."""
    torch.cuda.synchronize()
    dist.barrier()
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(times):
        call()
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end) * 1000 / times


def on_the_host(call, times):
    """Microseconds until a call returns."""
    torch.cuda.synchronize()
    dist.barrier()
    begin = time.perf_counter()
    for _ in range(times):
        call()
    took = (time.perf_counter() - begin) * 1e6 / times
    torch.cuda.synchronize()
    return took


def compare(what, times, clock=timed, **ways):
    for way in ways.values():
        for _ in range(3):
            way()
    took = {name: [] for name in ways}
    for _ in range(ROUNDS):
        for name, way in ways.items():
            took[name].append(clock(way, times))
    if peal.my_pe() == 0:
        print(json.dumps({"what": what, **{name: round(statistics.median(found), 1) for name, found in took.items()}}), flush=True)


def graph_of(call):
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(2):
            call()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return graph.replay


class ByNccl:
    """What programs do today: counts to the host, one all_to_all_single forth and one back."""

    def __init__(self, n_experts, top_k):
        self.n, self.n_experts, self.top_k = peal.n_pes(), n_experts, top_k
        self.edges = torch.arange(n_experts + 1, device="cuda")

    def __call__(self, x, experts, weights):
        chosen, slots = experts.reshape(-1).sort(stable=True)
        counts = torch.searchsorted(chosen, self.edges).diff()
        theirs = torch.empty_like(counts)
        dist.all_to_all_single(theirs, counts)
        per_member = torch.stack((counts.view(self.n, -1).sum(1), theirs.view(self.n, -1).sum(1))).tolist()
        sent, received = per_member
        rows = x.index_select(0, slots // self.top_k)
        there = torch.empty(sum(received), x.shape[1], dtype=x.dtype, device="cuda")
        dist.all_to_all_single(there, rows, received, sent)
        # By expert, as the Dispatcher gives them.
        owner = torch.arange(self.n_experts // self.n, device="cuda").repeat(self.n)
        by_expert = torch.repeat_interleave(owner, theirs, output_size=sum(received)).sort(stable=True)[1]
        at_experts = there.index_select(0, by_expert)
        back = torch.empty_like(there)
        back[by_expert] = at_experts
        home = torch.empty_like(rows)
        dist.all_to_all_single(home, back, sent, received)
        in_order = torch.empty_like(home)
        in_order[slots] = home
        return torch.bmm(weights.unsqueeze(1), in_order.view(-1, self.top_k, x.shape[1])).squeeze(1)


def mixture_of_experts(tokens, hidden=7168, n_experts=256, top_k=8):
    torch.manual_seed(peal.my_pe())
    x = torch.randn(tokens, hidden, device="cuda", dtype=torch.bfloat16)
    experts = torch.rand(tokens, n_experts, device="cuda").topk(top_k)[1]
    weights = torch.rand(tokens, top_k, device="cuda", dtype=torch.bfloat16)
    capacity = tokens * top_k + tokens * top_k // 8 + 512  # routing is even
    dispatcher = pt.Dispatcher(tokens, hidden, n_experts, top_k, torch.bfloat16, capacity=capacity)
    by_nccl = ByNccl(n_experts, top_k)

    def by_peal():
        routing = dispatcher.route(experts)
        return dispatcher.combine(dispatcher.dispatch(x, routing), weights, routing)

    same = torch.equal(by_peal(), by_nccl(x, experts, weights))
    peal.check()
    if not same:
        raise SystemExit(f"PE {peal.my_pe()}: the two do not agree")
    compare(f"MoE, {tokens} tokens, forth and back, us", 20, nccl=lambda: by_nccl(x, experts, weights), peal=by_peal,
            peal_graph=graph_of(by_peal))


def operations():
    for count in 2, 1 << 24:
        x = torch.ones(count, device="cuda")
        y, z = torch.empty_like(x), torch.empty_like(x)
        src, dst = pt.zeros(count), pt.zeros(count)
        size = f"{4 * count} bytes"
        times = 200 if count == 2 else 20
        for clock, unit in (timed, "us"), (on_the_host, "us of the host"):
            compare(f"all_reduce, {size}, {unit}", times, clock, nccl=lambda: dist.all_reduce(y), peal_op=lambda: pt.all_reduce(x),
                    peal=lambda: peal.all_reduce(dst, src, "sum"))
            compare(f"all_to_all, {size}, {unit}", times, clock, nccl=lambda: dist.all_to_all_single(z, x),
                    peal_op=lambda: pt.all_to_all(x), peal=lambda: peal.all_to_all(dst, src))


def symmetric_memory():
    x = symm_mem.empty(1 << 20, dtype=torch.bfloat16, device=torch.device(peal.device()))
    memory = symm_mem.rendezvous(x, dist.group.WORLD)
    compare("SymmetricMemory.barrier, us", 200, peal=memory.barrier, peal_graph=graph_of(memory.barrier))


def main():
    with peal.job("cuda"):
        torch.cuda.set_device(peal.device())
        dist.init_process_group("nccl", init_method=f"file://{tempfile.gettempdir()}/peal-torch-layers-{os.getppid()}",
                                rank=peal.my_pe(), world_size=peal.n_pes(), device_id=torch.device(peal.device()))
        symm_mem.set_backend("PEAL")
        symmetric_memory()
        for tokens in 128, 1024, 4096:
            mixture_of_experts(tokens)
        operations()
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
