# SPDX-License-Identifier: Apache-2.0
"""Groups of torch.distributed as PEs of the job, and the teams that make their collective calls."""
from __future__ import annotations

from typing import Any

import torch.distributed as dist
from torch.distributed import distributed_c10d

from peal import _arguments as arguments
from peal._job import current
from peal._team import Team, world
from peal.errors import ArgumentError, Error
from peal.torch import _staging

Which = Any  # a ProcessGroup, the name of one, or None: all PEs
_NONE = dist.GroupMember.NON_GROUP_MEMBER


class Group:
    """Rank i is PE `pes[i]`; `rank` is this PE's. `process_group` is None for all PEs of a job that torch knows nothing of."""

    def __init__(self, name: str, pes: tuple[int, ...], rank: int, process_group: Any):
        self.name, self.pes, self.rank, self.process_group = name, pes, rank, process_group
        self.meetings = 0  # of all members, by the store
        self.team: Team | None = None
        self.staging: Any = None

    size = property(lambda self: len(self.pes))
    is_everyone = property(lambda self: self.pes == tuple(range(current("team").n_pes)))


def of(call: str, group: Which) -> Group:
    """The Group that a program names. Raises ArgumentError where ranks of torch are not the PEs of the job."""
    name = group.group_name if isinstance(group, dist.ProcessGroup) else group or ""
    if not isinstance(name, str):
        raise ArgumentError(f"peal.torch.{call}: group {group!r}: give a ProcessGroup, its name, or None for all PEs")
    kept = current(call).kept
    found = kept.get(("group", name))
    if found is None or found.process_group is not _resolve(call, name):  # a name may come again for another group
        found = kept["group", name] = _make(call, name)
    return found


def ranks_of_pes(call: str) -> Any:
    """torch's global rank of each PE."""
    return current(call).kept.get("ranks", range(current(call).n_pes))


def _resolve(call, name):
    if name == "":
        return None
    try:
        return distributed_c10d._resolve_process_group(name)
    except (RuntimeError, KeyError, AttributeError) as error:
        raise ArgumentError(f"peal.torch.{call}: group {name!r}: {error}; give a ProcessGroup that this PE is a member of") from None


def _make(call, name):
    pe = current(call)
    process_group = _resolve(call, name)
    if process_group is None:
        return Group("", tuple(range(pe.n_pes)), pe.my_pe, None)
    all_ranks = ranks_of_pes(call)
    if dist.get_rank() != all_ranks[pe.my_pe] or dist.get_world_size() < pe.n_pes:
        raise ArgumentError(f"peal.torch.{call}: this process is rank {dist.get_rank()} of {dist.get_world_size()} for torch and PE "
                            f"{pe.my_pe} of {pe.n_pes} for peal; start both from one launcher, or peal by peal.torch.init()")
    ranks = dist.get_process_group_ranks(process_group)
    if not set(ranks) <= set(all_ranks):
        raise ArgumentError(f"peal.torch.{call}: group {name!r} has ranks {ranks}, of which peal's job has {list(all_ranks)} alone; give "
                            "a group of these")
    pes = tuple(all_ranks.index(rank) for rank in ranks)
    return Group(name, pes, pes.index(pe.my_pe), process_group)


def team(group: Which = None, staging: int | None = None) -> Team | None:
    """The Team of a group's members, which ends with the job, and symmetric memory for its operations.

    The first call for a group of fewer than all PEs is collective among all PEs: each gives the group that it is a member
    of, as the groups of one dimension of a DeviceMesh, or what new_group() answers where it is a member of none, and gets
    None then. Operations of the group are its members' alone from then on; their tensors may have `staging` bytes, the same
    on all PEs (without it 64 MiB on a GPU, 16 MiB on a CPU). Raises Error where groups overlap: their teams are made by one
    call each."""
    if staging is not None:
        arguments.number("torch.team", "staging", staging, low=1, high=(1 << 63) - 1)
    if group is _NONE or (isinstance(_NONE, int) and group == _NONE):
        world().split(-1)
        _staging.Staging("team", staging)
        return None
    found = of("team", group)
    made = team_of(found, staging)
    if staging is not None and found.staging is not None and found.staging.nbytes < staging and not found.is_everyone:
        raise ArgumentError(f"peal.torch.team: staging {staging}: the team of group {found.name!r} is there already, with "
                            f"{found.staging.nbytes}; give it in the first call, or make another group of these PEs")
    return made


def team_of(found: Group, staging: int | None = None) -> Team:
    """team() of a Group."""
    if found.team is None:
        if found.is_everyone:
            found.team = world()
            return found.team
        made = world().split(found.pes[0], found.rank)
        memory = _staging.Staging("team", staging)  # by all PEs, also where an error follows
        if tuple(map(made.world_pe, range(made.n_pes))) != found.pes:
            raise Error(f"peal.torch.team: group {found.name!r} has PEs {list(found.pes)}, and of these "
                        f"{[made.world_pe(i) for i in range(made.n_pes)]} have called for it together: while a team is made each PE gives "
                        "one group, and groups do not overlap; a PE of none calls peal.torch.team() of what new_group() has "
                        "answered there")
        found.team, found.staging = made, memory
    return found.team


def store(call: str, group: Group) -> Any:
    """The store by which the members tell one another what they have. Raises ArgumentError without torch.distributed."""
    if group.process_group is None:
        raise ArgumentError(f"peal.torch.{call}: give a group of torch.distributed, which has a store; call "
                            "torch.distributed.init_process_group() first")
    return distributed_c10d._get_process_group_store(group.process_group)
