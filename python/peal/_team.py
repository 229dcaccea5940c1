# SPDX-License-Identifier: Apache-2.0
"""Teams: some of the PEs, numbered from 0, that make collective calls among themselves."""
from __future__ import annotations

import ctypes
from typing import Any

from peal import _arguments as arguments
from peal._job import current
from peal._library import answer, must
from peal._ticket import Ticket
from peal.errors import ArgumentError, Error


class Team:
    """A team that this PE is a member of: world(), and what split() answers. It is not given back by itself, for that
    is collective: call free(), or leave it to finalize()."""

    def __init__(self, pe, native, owned):
        self._pe, self._handle, self._owned = pe, native, owned
        self.my_pe: int = pe.caller.directly(answer, "Team", "team_my_pe", native)
        self.n_pes: int = pe.caller.directly(answer, "Team", "team_n_pes", native)

    def _native(self, call):
        if current(call) is not self._pe or self._handle is None:
            raise Error(f"peal.{call}: the team has ended, by free() or finalize(); make it anew")
        return self._handle

    def world_pe(self, member: int) -> int:
        """The PE that is a member."""
        return self._pe.caller.directly(answer, "Team.world_pe", "team_world_pe", self._native("Team.world_pe"),
                                        arguments.number("Team.world_pe", "member", member))

    def split(self, color: int, key: int = 0) -> Team | None:
        """Collective among the members: teams of those with one `color`, numbered by `key`, then by their number here.
        None for a color less than 0."""
        self._pe.synchronize("Team.split", None)  # of two calls of one team at a time the second is refused
        made = ctypes.c_void_p()
        self._pe.caller.run(must, "Team.split", "team_split", self._native("Team.split"),
                            arguments.number("Team.split", "color", color), arguments.number("Team.split", "key", key),
                            ctypes.byref(made))
        return None if made.value is None else Team(self._pe, made.value, owned=True)

    def barrier(self, *, stream: Any = None, async_op: bool = False) -> Ticket | None:
        """As peal.barrier(), of the members."""
        return self._pe.make("Team.barrier", "team_barrier", self._native("Team.barrier"), stream=stream, async_op=async_op,
                             keep=(self,))

    def sync(self, *, stream: Any = None, async_op: bool = False) -> Ticket | None:
        """Done when all members have called it; says nothing of what was put."""
        return self._pe.make("Team.sync", "team_sync", self._native("Team.sync"), stream=stream, async_op=async_op, keep=(self,))

    def free(self) -> None:
        """Collective among the members: gives the team's memory back."""
        native = self._native("Team.free")
        if not self._owned:
            raise ArgumentError("peal.Team.free: the team of all PEs is not freed; leave it to peal.finalize()")
        self._pe.synchronize("Team.free", None)
        self._handle = None
        self._pe.caller.run(must, "Team.free", "team_free", native)

    def __repr__(self):
        return f"peal.Team(member {self.my_pe} of {self.n_pes})"


def world() -> Team:
    """The team of all PEs."""
    pe = current("world")
    return Team(pe, pe.world, owned=False)
