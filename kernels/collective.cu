// SPDX-License-Identifier: Apache-2.0
//
// Collective calls that move data or only meet, by the whole grid.
#include "device/collectives.h"
#include "kernels/entry.h"

using namespace peal;

// The length of a source.
static PEAL_DEVICE uint64_t bytes(const kernels::Collective& args) {
  return args.count * args.element;
}

// The kernel of a call, by the context and the team that its arguments name.
#define PEAL_TEAM_ENTRY(name, call)                                                       \
  PEAL_ENTRY(name, Collective) {                                                          \
    kernels::with_team(args, [&](const Context& ctx, const Team& team) { return call; }); \
  }

PEAL_TEAM_ENTRY(sync, sync(ctx, block, team))
PEAL_TEAM_ENTRY(barrier, barrier(ctx, block, team))
PEAL_TEAM_ENTRY(broadcast, broadcast(ctx, launched_grid, team, args.dst, args.src, bytes(args),
                                     args.caller.pe))
PEAL_TEAM_ENTRY(all_gather, all_gather(ctx, launched_grid, team, args.dst, args.src, bytes(args)))
PEAL_TEAM_ENTRY(all_to_all, all_to_all(ctx, launched_grid, team, args.dst, args.src, bytes(args)))

PEAL_ENTRY(all_to_all_v, Collective) {
  kernels::with_team(args, [&](const Context& ctx, const Team& team) {
    const collective::AllToAllV<int64_t> call{args.dst,
                                              args.src,
                                              {args.received_counts, args.received_at},
                                              {args.sent_counts, args.sent_at},
                                              args.element};
    return collective::run(ctx, launched_grid, team, call);
  });
}
