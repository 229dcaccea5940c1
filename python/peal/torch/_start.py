# SPDX-License-Identifier: Apache-2.0
"""A job of the processes that torch.distributed has already brought together."""
from __future__ import annotations

import collections
import subprocess
from typing import Any

import torch.distributed as dist
from torch.distributed import distributed_c10d

from peal import _job
from peal._library import NATIVE
from peal.errors import ArgumentError, Error

_FAILED = "failed: "  # what the others read instead of an id
_turns = collections.Counter()  # how often the members of a group, by its name, have begun a job


def init(device: str | None = None, group: Any = None) -> None:
    """peal.init() of the members of a ProcessGroup, which meet by its store whatever launched them: torch.multiprocessing,
    Ray, a launcher that peal does not speak to. PE i is rank i of the group; without one, of all processes. Collective."""
    if not dist.is_initialized():
        raise ArgumentError("peal.torch.init: torch.distributed is not initialised; call init_process_group() first, or "
                            "peal.init() under a launcher")
    if group is None:
        group = distributed_c10d._get_default_group()
    if not isinstance(group, dist.ProcessGroup):
        raise ArgumentError(f"peal.torch.init: group {group!r}: give a ProcessGroup that this process is a member of")
    ranks = dist.get_process_group_ranks(group)
    rank, store = ranks.index(dist.get_rank()), distributed_c10d._get_process_group_store(group)
    key = f"peal/init/{group.group_name}/{_turns[group.group_name]}"
    _turns[group.group_name] += 1
    if rank == 0:
        store.set(key, _new_id())
    told = store.get(key).decode()
    if told.startswith(_FAILED):
        raise Error(f"peal.torch.init: rank 0 of the group: {told.removeprefix(_FAILED)}")
    settings = {"PEAL_BOOTSTRAP": "tcp", "PEAL_TCP_ID": told, "PEAL_TCP_RANK": str(rank),
                "PEAL_TCP_SIZE": str(len(ranks))}
    _job.init_with(device, settings)
    _job.current("init").kept["ranks"] = tuple(ranks)


def _new_id():
    done = subprocess.run([NATIVE / "bin/peal-id"], capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else _FAILED + done.stderr.strip()
