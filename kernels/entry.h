// SPDX-License-Identifier: Apache-2.0
//
// How a kernel of the library begins and ends: its name, its context and team, the report of a
// failure.
#pragma once

#include "device/base/named_kernel.h"
#include "device/base/order.h"
#include "device/base/scope.h"
#include "device/base/spin.h"
#include "device/context.h"
#include "device/shared/kernel_arguments.h"

// PEAL_ENTRY(name, Arguments) { ... args ... } is the kernel `peal_kernel_name`.
#define PEAL_ENTRY(name, Arguments) PEAL_NAMED_KERNEL(peal_kernel_##name, peal::kernels::Arguments)

namespace peal::kernels {

PEAL_DEVICE const Context& context_of(const Caller& caller) {
  return static_cast<const Context&>(caller.state->fields);
}

PEAL_DEVICE_COLD inline void write_report(const Caller& caller, Status status, uint64_t team,
                                          Call other) {
  CallReport& report = *caller.report;
  if (!compare_exchange<Reach::kSystem>(&report.claimed, 0u, 1u)) return;
  report.call = caller.call;
  report.pe = caller.pe;
  report.team = team;
  report.other = other;
  report.time_ns = now_ns();
  store_release<Reach::kSystem>(&report.status, static_cast<uint32_t>(status));
  if (caller.state->alarm != nullptr) store_release<Reach::kSystem>(caller.state->alarm, 1u);
}

/// Called by every lane, or by one.
PEAL_DEVICE void report(const Caller& caller, Status status, uint64_t team = 0,
                        Call other = Call::kNone) {
  if (status != Status::kOk) write_report(caller, status, team, other);
}

inline constexpr uint32_t kTriesToEnter = 1000;

/// Takes the word of team and context for the grid of the calling block; by one lane. Answers the
/// call that has it, or 0. A block that is let in makes two atomics: where blocks tried until they
/// succeeded, each round of tries let one in, and 128 blocks took 160 us on an H100.
PEAL_DEVICE uint64_t enter(const Collective& args) {
  if (args.under_way == nullptr) return 0;
  const uint32_t blocks = blocks_in_grid();
  const uint64_t first = args.launch | UnderWay::kCame | blocks;
  uint64_t seen = 0;
  // Without a number the word is of nobody: a block that is being refused has just added to it.
  for (uint32_t tries = 0; tries < kTriesToEnter && seen >> 32 == 0; ++tries) {
    seen = compare_swap<Reach::kGpu>(args.under_way, uint64_t{0}, first);
    if (seen == 0) return 0;
  }
  // A full word is of another replay of one graph, for this block has not come.
  if (!UnderWay::same(seen, args.launch) || UnderWay::came(seen) >= blocks) return seen;
  // The word of this grid stays until all its blocks have come and gone.
  const uint64_t before = fetch_add<Reach::kGpu>(args.under_way, UnderWay::kCame);
  if (UnderWay::same(before, args.launch) && UnderWay::came(before) < blocks) return 0;
  // It was another replay's, whose last blocks have come, or gone, meanwhile.
  fetch_add<Reach::kGpu>(args.under_way, ~UnderWay::kCame + 1);
  return seen;
}

/// The last block of a grid gives the word back, by additions alone: a block that is being refused
/// may have added to it. By one lane of each.
PEAL_DEVICE void leave(const Collective& args) {
  if (args.under_way == nullptr) return;
  const uint32_t blocks = blocks_in_grid();
  uint64_t left = args.launch | UnderWay::kCame * blocks;
  if (blocks == 1) {
    ++left;
  } else {
    const uint64_t before = fetch_add<Reach::kGpu>(args.under_way, ~uint64_t{0});
    if (UnderWay::not_done(before) != 1) return;
  }
  fetch_add<Reach::kGpu>(args.under_way, ~left + 1);
}

/// Makes a collective call of the team that the arguments name, if it still exists. Two at a time
/// on one context, of two streams or graphs, would take each other's words and lines for their own:
/// the second one is refused.
template <class Op>
PEAL_DEVICE void with_team(const Collective& args, const Op& op) {
  const uint64_t other = block.leader() ? enter(args) : 0;
  const Team team = *args.team;  // comes while the lane above waits
  Status status = Status::kBadTeam;
  if (any(block, other != 0)) {
    if (other != 0) report(args.caller, Status::kTeamBusy, args.team_id, UnderWay::call(other));
    return;
  }
  if (team.id == args.team_id) status = op(context_of(args.caller), team);
  report(args.caller, status, args.team_id);
  block.sync();
  if (block.leader()) leave(args);
}

}  // namespace peal::kernels
