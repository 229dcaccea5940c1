// SPDX-License-Identifier: Apache-2.0
//
// What a lane does that meets a fault on the way to a mapped peer (link_faults.h). With a plan the
// host shows no PE as near and has barriers look up who takes part, so everything comes through
// functions that are out of line; without one a kernel has none of this on its way.
//
//   resolve_elsewhere, resolve_together, sync_survivors -> meet_fault -> the operation, or a Status
#pragma once

#include <cstdint>

#include "device/base/order.h"
#include "device/base/spin.h"
#include "device/context.h"
#include "device/detail/asked.h"
#include "device/shared/waits.h"

namespace peal::detail {

/// A number that looks random and depends on its input alone (splitmix64).
PEAL_HD uint64_t scattered(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
  x = (x ^ x >> 27) * 0x94d049bb133111eb;
  return x ^ x >> 31;
}

/// The first rule for the `count`-th operation, or signal, to `pe`; null when there is none.
PEAL_HD const LinkRule* rule_for(const LinkFaults& faults, bool of_signals, int pe,
                                 uint64_t count) {
  for (uint32_t i = 0; i < faults.count; ++i) {
    const LinkRule& rule = faults.rule[i];
    if ((rule.fault == LinkFault::kLateSignal) != of_signals) continue;
    if ((rule.pe >= 0 && rule.pe != pe) || (rule.at != 0 && rule.at != count)) continue;
    const uint64_t event =
        uint64_t{i} << 56 ^ static_cast<uint64_t>(static_cast<uint32_t>(pe)) << 32 ^ count;
    if (scattered(faults.seed ^ scattered(event)) >> 32 < rule.chance) return &rule;
  }
  return nullptr;
}

/// Stands still for `ns`. Where that is 0 or longer than the context's deadline, until the
/// deadline, which is kTimeout. Answers what ended it early.
PEAL_DEVICE Status stand_still(ContextState* state, int pe, uint64_t ns) {
  const ContextFields& ctx = state->fields;
  const auto what = [&] {
    Wait wait;
    wait.kind = WaitKind::kFault;
    wait.pe = pe;
    return wait;
  };
  const bool for_good = ns == 0 || (ctx.timeout_ns != 0 && ns > ctx.timeout_ns);
  const Deadline over = Deadline::in(for_good ? 0 : ns);
  return wait_noted(
      &state->waits, for_good ? ctx.timeout_ns : 0, [&] { return over.passed(); },
      [&] { return static_cast<Status>(load_relaxed<Reach::kSystem>(ctx.stop)); }, what);
}

/// Before a signal's word is stored at a mapped peer, behind its data.
PEAL_DEVICE_COLD inline Status meet_late_signal(ContextState* state, int pe) {
  LinkFaults& faults = *state->faults;
  if (pe == state->fields.pe) return Status::kOk;
  const uint64_t count = fetch_add_relaxed<Reach::kGpu>(&faults.links[pe].signals, uint64_t{1}) + 1;
  const LinkRule* const rule = rule_for(faults, true, pe, count);
  return rule == nullptr ? Status::kOk : stand_still(state, pe, rule->ns);
}

/// What becomes of an operation on the memory of a mapped peer: kOk, maybe late, or a Status
/// instead of it. By one lane of those that do it together. `asked.pe` exists.
PEAL_DEVICE_COLD inline Status meet_fault(ContextState* state, Asked asked) {
  LinkFaults& faults = *state->faults;
  if (asked.pe == state->fields.pe) return Status::kOk;
  LinkCount& link = faults.links[asked.pe];
  const uint64_t count = fetch_add_relaxed<Reach::kGpu>(&link.operations, uint64_t{1}) + 1;
  if (now_ns() < load_relaxed<Reach::kGpu>(&link.down_until)) {
    return refuse(state, Status::kPeerLost, asked);
  }
  Status met = Status::kOk;
  if (const LinkRule* const rule = rule_for(faults, false, asked.pe, count)) {
    if (rule->fault == LinkFault::kLinkDown) {
      const uint64_t until = rule->ns == 0 ? ~uint64_t{0} : now_ns() + rule->ns;
      store_relaxed<Reach::kGpu>(&link.down_until, until);
      return refuse(state, Status::kPeerLost, asked);
    }
    if (rule->fault == LinkFault::kKill) {
      store_release<Reach::kSystem>(&faults.killed, 1u);
      return stand_still(state, asked.pe, 0);
    }
    met = stand_still(state, asked.pe, rule->ns);
  }
  // A put with a signal meets this when its data is stored.
  if (met == Status::kOk && asked.call == Call::kSignal) {
    met = meet_late_signal(state, asked.pe);
  }
  return met;
}

/// A barrier is an operation on every other mapped PE that takes part.
PEAL_DEVICE_COLD inline Status meet_barrier_faults(ContextState* state, Call call) {
  Status first = Status::kOk;
  const ContextFields& ctx = state->fields;
  for (uint32_t i = 0; i < state->survivors.count; ++i) {
    const int pe = state->survivors.pe[i];
    if (ctx.heap.direct[pe] == nullptr) continue;
    const Status met =
        meet_fault(state, {.address = ctx.sync_flags, .bytes = 8, .pe = pe, .call = call});
    if (first == Status::kOk) first = met;
  }
  return first;
}

}  // namespace peal::detail
