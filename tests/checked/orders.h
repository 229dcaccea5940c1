// SPDX-License-Identifier: Apache-2.0
//
// Planted: accesses that nothing orders, and memory that an operation under way still needs. PE 0
// and PE 1 run the same kernel; what each does follows from its number. Where one must come after
// the other by the clock and not by any order, the later one waits for a p: a p vouches for
// nothing.
#pragma once

#include "tests/checked/plants.h"

namespace peal::planted {

/// True on PE 1, once PE 0 has said so by a p; PE 0 goes on at once.
PEAL_DEVICE bool second(Context ctx, Memory m) {
  if (ctx.pe == 0) {
    static_cast<void>(p(ctx, m.words + 8, 1, 1));
    return false;
  }
  return wait_until(ctx, m.words + 8, Compare::kEq, 1) == Status::kOk;
}

PEAL_KERNEL flag_without_fence(Context ctx, Team, Memory m) {
  if (ctx.pe == 0) static_cast<void>(put(ctx, m.beside, m.beside, 512, 1));
  if (second(ctx, m)) static_cast<void>(put(ctx, m.block, m.beside, 64, 0));
}

PEAL_KERNEL both_put(Context ctx, Team, Memory m) {
  static_cast<void>(put(ctx, m.beside, m.beside + 1024 * (1 + ctx.pe), 512, 0));
}

PEAL_KERNEL read_what_is_put(Context ctx, Team, Memory m) {
  if (ctx.pe == 0) static_cast<void>(put(ctx, m.beside, m.beside + 1024, 512, 1));
  if (ctx.pe == 1) static_cast<void>(get(ctx, m.beside + 2048, m.beside, 512, 1));
}

PEAL_KERNEL sync_in_place_of_barrier(Context ctx, Team, Memory m) {
  if (ctx.pe == 0) static_cast<void>(put(ctx, m.beside, m.beside, 512, 1));
  static_cast<void>(sync_all(ctx));
  if (ctx.pe == 1) static_cast<void>(put(ctx, m.block, m.beside, 64, 0));
}

PEAL_KERNEL source_too_early(Context ctx, Team, Memory m) {
  if (ctx.pe != 0) return;
  static_cast<void>(put_nbi(ctx, thread, m.beside, m.beside + 1024, 512, 1).status);
  static_cast<void>(get(ctx, m.beside + 1024, m.beside + 2048, 8, 0));
  static_cast<void>(quiet(ctx));
}

PEAL_KERNEL store_too_early(Context ctx, Team, Memory m) {
  if (ctx.pe != 0) return;
  const Ticket ticket = put_nbi(ctx, thread, m.beside, m.beside + 1024, 512, 1);
  m.beside[1024] = std::byte{77};
  static_cast<void>(wait(ctx, ticket));
}

PEAL_KERNEL destination_too_early(Context ctx, Team, Memory m) {
  if (ctx.pe != 0) return;
  static_cast<void>(get_nbi(ctx, thread, m.beside, m.beside, 512, 1).status);
  static_cast<void>(put(ctx, m.beside + 1024, m.beside, 64, 1));
  static_cast<void>(quiet(ctx));
}

PEAL_KERNEL result_too_early(Context ctx, Team, Memory m) {
  if (ctx.pe != 0) return;
  auto* const result = reinterpret_cast<uint64_t*>(m.beside);
  static_cast<void>(atomic_fetch_add_nbi(ctx, result, m.words, 1, 1).status);
  static_cast<void>(put(ctx, m.beside + 1024, m.beside, 8, 1));
  static_cast<void>(quiet(ctx));
}

PEAL_KERNEL overwrite_unread(Context ctx, Team, Memory m) {
  for (uint64_t i = 1; i <= 2; ++i) {
    if (ctx.pe == 0) {
      static_cast<void>(
          put_signal(ctx, thread, m.beside, m.beside + 1024, 512, Signal::set(m.words, i, 1)));
    } else {
      static_cast<void>(wait_until(ctx, m.words, Compare::kGe, i));
      static_cast<void>(put(ctx, m.beside + 2048, m.beside, 512, 0));
    }
  }
}

inline Plants order_plants() {
  const char* const vouches = "told of it before it was complete";
  return {
      {"flag_without_fence", {"reads 64 bytes of PE 1", vouches}, on_all({}, flag_without_fence)},
      {"both_put", {"writes 512 bytes of PE 0", "nothing orders the two"}, on_all({}, both_put)},
      {"read_what_is_put", {"512 bytes of PE 1", "nothing orders"}, on_all({}, read_what_is_put)},
      {"sync_in_place_of_barrier", {vouches, "sync_all"}, on_all({}, sync_in_place_of_barrier)},
      {"source_too_early", {"its source", "is written by"}, on_all({}, source_too_early)},
      {"store_too_early", {"its source", "changed before"}, on_all({}, store_too_early)},
      {"destination_too_early",
       {"its destination", "is read by", "wait(ticket) or quiet"},
       on_all({}, destination_too_early)},
      {"result_too_early",
       {"atomic_fetch_add_nbi from PE 1: its destination", "is read by"},
       on_all({}, result_too_early)},
      {"overwrite_unread", {"512 bytes of PE 1", "nothing orders"}, on_all({}, overwrite_unread)},
  };
}

}  // namespace peal::planted
