// SPDX-License-Identifier: Apache-2.0
//
// A team: some PEs of a job, numbered from 0, that make collective calls together
// (device/collectives.h). A plain value that kernels take; Runtime makes it (host/teams/teams.h)
// and frees what it points at.
//
//   all_reduce(ctx, block, team, dst, src, n, op::sum);
//
// Collective calls of one team in one context follow one another, in the same order at all members.
// Those of different teams, and of one team in different contexts, may run at the same time; two of
// one team in one context, of two streams, may not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "device/base/target.h"

namespace peal {

/// Team::apart: not every member loads and stores the memory of every other. Above it lies what
/// PEAL_ALGORITHM forces (device/shared/algorithms.h): one word, so that a call asks for both at
/// once.
inline constexpr uint32_t kTeamByNic = 1;

/// Plain data, alike at all members but for `rank`, `pes` and `memory`.
struct Team {
  uint64_t id = 0;              // alike at the members, of no other team of theirs; 0: all PEs
  int32_t rank = -1;            // of this PE; -1: it is no member
  int32_t size = 0;             // members
  int32_t first = 0;            // member i is PE first + i * stride, or
  int32_t stride = 0;           // where this is 0, pes[i]
  uint32_t contexts = 0;        // context number c uses part c of `memory`
  uint32_t channels = 0;        // blocks that take part in a call of a grid
  uint32_t workspace = 0;       // bytes of a part that messages pass through
  uint32_t apart = 0;           // 0: calls go inline, by loads and stores; else see kTeamByNic
  uint32_t grid_workspace = 0;  // bytes of a part for those of calls from the host
  const int32_t* pes = nullptr;
  std::byte* memory = nullptr;  // symmetric, at one offset at all members (shared/team_memory.h)
};
static_assert(std::is_trivially_copyable_v<Team> && sizeof(Team) <= 64);

/// Every member loads and stores the memory of every other.
PEAL_HD bool all_mapped(const Team& team) { return (team.apart & kTeamByNic) == 0; }

/// This PE's number in the team, -1 where it is no member, and the number of members.
PEAL_HD int my_pe(const Team& team) { return team.rank; }
PEAL_HD int n_pes(const Team& team) { return team.size; }

/// The PE that is member `member`, or -1 where there is none.
PEAL_DEVICE int world_pe(const Team& team, int member) {
  if (member < 0 || member >= team.size) return -1;
  return team.stride != 0 ? team.first + member * team.stride : team.pes[member];
}

/// The member of `to` that is member `member` of `from`, or -1 where there is none. A look at every
/// member of a team whose PEs are not evenly spaced.
PEAL_DEVICE int translate(const Team& from, int member, const Team& to) {
  const int pe = world_pe(from, member);
  if (pe < 0) return -1;
  for (int i = 0; i < to.size; ++i) {
    if (world_pe(to, i) == pe) return i;
  }
  return -1;
}

}  // namespace peal
