// SPDX-License-Identifier: Apache-2.0
//
// A ticket lock between PEs: two words at one PE, first come, first served. What it protects lies
// at that PE too and is read and written by get and put, or lies at home with whoever stores it.
//
//   lock    draws a ticket, waits until it is served: acquires what the holders before released
//   unlock  serves the next ticket: releases what this block put to that PE, and this lane's stores
//
// Put to another PE than the lock's is not covered: quiet(ctx, pe) before unlock(). One thread
// calls; a caller that waited in vain must not go on to use the lock.
#pragma once

#include <cstdint>

#include "device/api.h"

/// Symmetric, zeroed.
struct TicketLock {
  uint64_t next;
  uint64_t serving;
};

/// Takes the lock at `pe`: the ticket, for unlock(). kTimeout when it was not served in time.
template <peal::Reach R>
PEAL_DEVICE peal::Fetched<uint64_t> lock(const peal::BasicContext<R>& ctx, TicketLock* at, int pe) {
  peal::Fetched<uint64_t> ticket = peal::atomic_fetch_inc(ctx, &at->next, pe);
  if (ticket.status != peal::Status::kOk) return ticket;
  const auto served = [&] {
    const auto serving = peal::atomic_fetch(ctx, &at->serving, pe, peal::acquire);
    ticket.status = serving.status;
    return serving.status != peal::Status::kOk || serving.value == ticket.value;
  };
  const auto end = peal::spin_until(ctx.timeout_ns, served, [] { return false; });
  if (end != peal::SpinEnd::kDone) ticket.status = peal::Status::kTimeout;
  return ticket;
}

/// Hands the lock that `ticket` holds to whoever has the next one. kOk once posted.
template <peal::Reach R>
PEAL_DEVICE peal::Status unlock(const peal::BasicContext<R>& ctx, TicketLock* at, int pe,
                                uint64_t ticket) {
  return peal::atomic_set(ctx, &at->serving, ticket + 1, pe, peal::release);
}
