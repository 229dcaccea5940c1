# SPDX-License-Identifier: Apache-2.0
"""PyTorch's NCCL backend over the software NIC: every element of every collective is checked. Started by nccl.sh."""
import os

import torch
import torch.distributed as dist

SIZES = (1, 1000, 1 << 18, (1 << 22) + 4)


def check(name, got, wanted):
    if not torch.equal(got, wanted):
        where = (got != wanted).nonzero()[0].item()
        raise SystemExit(f"rank {dist.get_rank()}: {name} of {got.numel()}: element {where} is {got[where].item()}, "
                         f"not {wanted[where].item()}")


def main():
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", device_id=torch.device("cuda", rank))
    for count in SIZES:
        ramp = torch.arange(count, device="cuda", dtype=torch.int64)
        mine = ramp + 1000 * rank
        total = mine.clone()
        dist.all_reduce(total)
        check("all_reduce", total, ramp * size + 1000 * sum(range(size)))
        gathered = torch.empty(count * size, device="cuda", dtype=torch.int64)
        dist.all_gather_into_tensor(gathered, mine)
        check("all_gather", gathered, torch.cat([ramp + 1000 * peer for peer in range(size)]))
        sent = torch.cat([ramp + 1000 * rank + 7 * peer for peer in range(size)])
        received = torch.empty_like(sent)
        dist.all_to_all_single(received, sent)
        check("all_to_all", received, torch.cat([ramp + 1000 * peer + 7 * rank for peer in range(size)]))
    torch.cuda.synchronize()
    print(f"rank {rank}: {3 * len(SIZES)} passed, 0 failed", flush=True)
    dist.destroy_process_group()


main()
