// SPDX-License-Identifier: Apache-2.0
//
// Planted: lanes of a scope that do not make the same call, several callers of what has one at a
// time, queues and tickets of others.
#pragma once

#include "tests/checked/plants.h"

namespace peal::planted {

PEAL_KERNEL other_pes(Context ctx, Memory m) {
  static_cast<void>(
      put(ctx, block, m.beside, m.beside + 64, 64, static_cast<int>(thread_in_block() / 32)));
}

PEAL_KERNEL other_addresses(Context ctx, Memory m) {
  static_cast<void>(put(ctx, warp, m.beside + thread_in_block() * 8, m.beside + 2048, 8, 1));
}

PEAL_KERNEL sources_on_the_stack(Context ctx, Memory m) {
  const uint64_t mine = thread_in_block();
  static_cast<void>(put(ctx, warp, m.words, &mine, 1, 1));
}

PEAL_KERNEL other_counts(Context ctx, Memory m) {
  static_cast<void>(
      get(ctx, block, m.beside, m.beside + 2048, thread_in_block() == 40 ? 32 : 64, 1));
}

PEAL_KERNEL other_values(Context ctx, Memory m) {
  static_cast<void>(put_signal(ctx, warp, m.beside, m.beside + 2048, 64,
                               Signal::set(m.words, 1 + thread_in_block() / 16, 1)));
}

PEAL_KERNEL half_has_left(Context ctx, Memory m) {
  if (thread_in_block() >= 32) return;
  static_cast<void>(put(ctx, block, m.beside, m.beside + 2048, 64, 1));
}

PEAL_KERNEL leader_has_left(Context ctx, Memory) {
  if (thread_in_block() == 0) return;
  static_cast<void>(quiet(ctx, block));
}

PEAL_KERNEL barrier_of_each_block(Context ctx, Team, Memory) {
  static_cast<void>(barrier_all(ctx, block));
}

PEAL_KERNEL sync_of_each_thread(Context ctx, Team, Memory) { static_cast<void>(sync_all(ctx)); }

PEAL_KERNEL two_calls_of_a_team(Context ctx, Team team, Memory m) {
  uint64_t* const mine = m.words + 4 * block_in_grid();
  static_cast<void>(all_reduce(ctx, block, team, mine, mine + 1, 1, op::sum));
}

PEAL_KERNEL two_grids_of_a_team(Context ctx, Team team, Memory m) {
  static_cast<void>(all_gather(ctx, whole_grid, team, m.words, m.words + 8, 4));
}

PEAL_KERNEL more_blocks_than_queues(BlockContext ctx, Memory m) {
  static_cast<void>(
      put_nbi(ctx, block, m.beside + 64 * block_in_grid(), m.beside + 2048, 64, 1).status);
}

PEAL_KERNEL two_lanes_of_one_queue(ExclusiveContext ctx, Memory m) {
  static_cast<void>(g(ctx, m.words + thread_in_block(), 1).status);
}

PEAL_KERNEL ticket_of_another(Context mine, Context other, Memory m) {
  const Ticket ticket = put_nbi(other, thread, m.beside, m.beside + 2048, 64, 1);
  static_cast<void>(wait(mine, ticket));
}

/// PE 0 launches with a context of its own, which tells what it found before it goes.
template <Reach R>
std::function<void(Runtime&, const Memory&)> on_owned(const Grid& grid, uint32_t queues,
                                                      void (*kernel)(BasicContext<R>, Memory)) {
  return [=](Runtime& pe, const Memory& memory) {
    const auto context = pe.make_context<R>({.queues_per_peer = queues});
    if (pe.my_pe() == 0) launch(grid, kernel, context.value(), memory).wait();
    pe.barrier();
    pe.check();
  };
}

inline Plants scope_plants() {
  return {
      {"other_pes",
       {"put: it gave PE 1, and block 0, thread 0 gave PE 0", "same arguments"},
       on_first({.threads = 64}, other_pes)},
      {"other_addresses",
       {"put: it gave the symmetric address 0x"},
       on_first({.threads = 32}, other_addresses)},
      {"sources_on_the_stack",
       {"put: it gave the local address 0x"},
       on_first({.threads = 32}, sources_on_the_stack),
       false,
       false,
       false},
      {"other_counts",
       {"thread 40: get: it gave 32 bytes, and", "gave 64 bytes"},
       on_first({.threads = 64}, other_counts)},
      {"other_values",
       {"put_signal: it gave the value 2, and", "thread 0 gave the value 1"},
       on_first({.threads = 32}, other_values)},
      {"half_has_left",
       {"put by a block of which only 32 threads are left"},
       on_first({.threads = 64}, half_has_left)},
      {"leader_has_left",
       {"quiet by a block of which only 63"},
       on_first({.threads = 64}, leader_has_left)},
      {"barrier_of_each_block",
       {"barrier_all while block", "is in a barrier of the same context: one scope of one kernel"},
       on_first({.blocks = 8, .threads = 32}, barrier_of_each_block)},
      {"sync_of_each_thread",
       {"sync_all while block 0, thread"},
       on_first({.threads = 4}, sync_of_each_thread)},
      {"two_calls_of_a_team",
       {"all_reduce while block"},
       on_first({.blocks = 2, .threads = 32}, two_calls_of_a_team)},
      {"two_grids_of_a_team",
       {"all_gather while block 0, thread 0 is in a call of the same team",
        "one scope of one kernel"},
       [](Runtime& pe, const Memory& memory) {
         if (pe.my_pe() != 0) return;
         const auto start = [&] {
           return launch({.threads = 32}, two_grids_of_a_team, pe.context(), pe.world(), memory);
         };
         auto one = start();
         auto other = start();
         one.wait();
         other.wait();
       },
       false,
       false,
       false},
      {"more_blocks_than_queues",
       {"put by the queues that block", "queues_per_peer"},
       on_owned<Reach::kBlock>({.blocks = 4, .threads = 32}, 2, more_blocks_than_queues)},
      {"two_lanes_of_one_queue",
       {"g by the queues that block 0, thread", "is using"},
       on_owned<Reach::kLane>({.threads = 2}, 1, two_lanes_of_one_queue),
       true},
      {"ticket_of_another",
       {"a ticket that another context answered"},
       [](Runtime& pe, const Memory& memory) {
         const auto context = pe.make_context();
         if (pe.my_pe() == 0) {
           launch({}, ticket_of_another, pe.context(), context.value(), memory).wait();
         }
         pe.barrier();
       },
       true},
  };
}

}  // namespace peal::planted
