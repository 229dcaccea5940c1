// SPDX-License-Identifier: Apache-2.0
//
// Collective calls that move data or only meet, by the whole grid.
#include "device/collectives.h"
#include "kernels/entry.h"

using namespace peal;

PEAL_ENTRY(sync, Collective) {
  kernels::with_team(args,
                     [&](const Context& ctx, const Team& team) { return sync(ctx, block, team); });
}

PEAL_ENTRY(barrier, Collective) {
  kernels::with_team(
      args, [&](const Context& ctx, const Team& team) { return barrier(ctx, block, team); });
}

PEAL_ENTRY(broadcast, Collective) {
  kernels::with_team(args, [&](const Context& ctx, const Team& team) {
    return broadcast(ctx, launched_grid, team, args.dst, args.src, args.count * args.element,
                     args.caller.pe);
  });
}

PEAL_ENTRY(all_gather, Collective) {
  kernels::with_team(args, [&](const Context& ctx, const Team& team) {
    return all_gather(ctx, launched_grid, team, args.dst, args.src, args.count * args.element);
  });
}

PEAL_ENTRY(all_to_all, Collective) {
  kernels::with_team(args, [&](const Context& ctx, const Team& team) {
    return all_to_all(ctx, launched_grid, team, args.dst, args.src, args.count * args.element);
  });
}

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
