# SPDX-License-Identifier: Apache-2.0
"""A job of the processes that torch.distributed has already brought together."""
from __future__ import annotations

import subprocess
from typing import Any

import torch.distributed as dist
from torch.distributed import distributed_c10d

from peal import _job
from peal._library import NATIVE
from peal.errors import ArgumentError, Error

_turn = 0  # every process makes the same calls


def init(device: str | None = None, group: Any = None) -> None:
    """peal.init() of the members of a ProcessGroup, which meet by its store whatever launched them: torch.multiprocessing,
    Ray, a launcher that peal does not speak to. PE i is rank i of the group; without one, of all processes. Collective."""
    global _turn
    if not dist.is_initialized():
        raise ArgumentError("peal.torch.init: torch.distributed is not initialised; call init_process_group() first, or "
                            "peal.init() under a launcher")
    group = distributed_c10d._get_default_group() if group is None else group
    ranks = dist.get_process_group_ranks(group)
    rank, store, key = ranks.index(dist.get_rank()), distributed_c10d._get_process_group_store(group), f"peal/init/{_turn}"
    _turn += 1
    if rank == 0:
        store.set(key, _new_id())
    settings = {"PEAL_BOOTSTRAP": "tcp", "PEAL_TCP_ID": store.get(key).decode(), "PEAL_TCP_RANK": str(rank),
                "PEAL_TCP_SIZE": str(len(ranks))}
    _job.init_with(device, settings)
    _job.current("init").kept["ranks"] = tuple(ranks)


def _new_id():
    done = subprocess.run([NATIVE / "bin/peal-id"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Error(f"peal.torch.init: {done.stderr.strip()}")
    return done.stdout.strip()
