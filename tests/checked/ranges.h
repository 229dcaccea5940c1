// SPDX-License-Identifier: Apache-2.0
//
// Planted: ranges that do not lie in a block of the heap, at either end of an operation.
#pragma once

#include "tests/checked/plants.h"

namespace peal::planted {

PEAL_KERNEL put_past_the_end(Context ctx, Memory m) {
  static_cast<void>(put(ctx, m.block + 64, m.beside, 64, 1));
}

PEAL_KERNEL put_before_the_block(Context ctx, Memory m) {
  static_cast<void>(put(ctx, m.beside - 8, m.beside, 16, 1));
}

PEAL_KERNEL put_over_two_blocks(Context ctx, Memory m) {
  static_cast<void>(put(ctx, peal::block, m.block, m.beside, 1000, 1));
}

PEAL_KERNEL get_past_the_end(Context ctx, Memory m) {
  static_cast<void>(get(ctx, m.beside, m.block, 101, 1));
}

PEAL_KERNEL source_past_the_end(Context ctx, Memory m) {
  static_cast<void>(put(ctx, m.beside, m.block, 128, 1));
}

PEAL_KERNEL destination_past_the_end(Context ctx, Memory m) {
  static_cast<void>(get(ctx, m.block, m.beside, 128, 1));
}

PEAL_KERNEL p_past_the_end(Context ctx, Memory m) { static_cast<void>(p(ctx, m.words + 16, 7, 1)); }

PEAL_KERNEL g_far_outside(Context ctx, Memory m) {
  static_cast<void>(g(ctx, m.words + 4096, 1).status);
}

PEAL_KERNEL add_past_the_end(Context ctx, Memory m) {
  static_cast<void>(atomic_fetch_add(ctx, m.words + 16, 1, 1).status);
}

PEAL_KERNEL signal_outside(Context ctx, Memory m) {
  static_cast<void>(put_signal(ctx, warp, m.beside, m.beside, 64, Signal::add(m.words + 16, 1, 1)));
}

PEAL_KERNEL wait_outside(Context ctx, Memory m) {
  static_cast<void>(wait_until(ctx, m.words + 17, Compare::kEq, 1));
}

PEAL_KERNEL strides_past_the_end(Context ctx, Memory m) {
  static_cast<void>(iput(ctx, thread, m.words, m.words, Strides{4, 1}, 5, 1));
}

PEAL_KERNEL runtime_memory(Context ctx, Memory m) {
  static_cast<void>(put(ctx, ctx.heap.base, m.beside, 8, 1));
}

PEAL_KERNEL put_after_free(Context ctx, Memory m) {
  static_cast<void>(put(ctx, m.block + 8, m.beside, 8, 1));
}

PEAL_KERNEL get_after_free(Context ctx, Memory m) {
  static_cast<void>(get(ctx, m.beside, m.block, 8, 1));
}

PEAL_KERNEL source_after_free(Context ctx, Memory m) {
  static_cast<void>(put(ctx, m.beside, m.block, 8, 1));
}

PEAL_KERNEL wait_after_free(Context ctx, Memory m) {
  static_cast<void>(wait_until(ctx, reinterpret_cast<const uint64_t*>(m.block), Compare::kNe, 0));
}

PEAL_KERNEL gather_into_too_little(Context ctx, Team team, Memory m) {
  static_cast<void>(all_gather(ctx, peal::block, team, m.words, m.words, 16));
}

PEAL_KERNEL uneven_over_two_blocks(Context ctx, Team team, Memory m) {
  // Two elements each, the second one's where the next block of the heap is.
  auto* const lists = reinterpret_cast<int64_t*>(m.words);
  lists[0] = lists[1] = 2;
  lists[3] = 32;
  auto* const dst = reinterpret_cast<uint64_t*>(m.block);
  const Blocks<int64_t> received{lists, lists + 2};
  const Blocks<int64_t> sent{lists, lists + 4};
  static_cast<void>(all_to_all_v(ctx, thread, team, dst, received,
                                 reinterpret_cast<const uint64_t*>(m.beside), sent));
}

PEAL_KERNEL reduce_from_freed(Context ctx, Team team, Memory m) {
  auto* const dst = reinterpret_cast<float*>(m.beside);
  static_cast<void>(
      all_reduce(ctx, peal::block, team, dst, reinterpret_cast<float*>(m.block), 8, op::sum));
}

/// The block is given back, another takes its room as soon as it may, and PE 0 uses the first.
inline std::function<void(Runtime&, const Memory&)> after_free(void (*kernel)(Context, Memory)) {
  return [=](Runtime& pe, const Memory& memory) {
    pe.free(memory.block);
    void* const next = pe.malloc(100);
    on_first({}, kernel)(pe, memory);
    pe.free(next);
  };
}

inline Plants range_plants() {
  return {
      {"put_past_the_end",
       {"put used PE 1", "64 bytes", "byte 64 of the 100 bytes at heap offset", "behind their end"},
       on_first({}, put_past_the_end)},
      {"put_before_the_block",
       {"put used PE 1", "8 bytes ahead of the 4096 bytes", "no allocation"},
       on_first({}, put_before_the_block)},
      {"put_over_two_blocks",
       {"put used PE 1", "byte 0 of the 100 bytes", "behind their end"},
       on_first({.threads = 64}, put_over_two_blocks)},
      {"get_past_the_end",
       {"get used PE 1", "101 bytes", "behind their end"},
       on_first({}, get_past_the_end)},
      {"source_past_the_end",
       {"the source of put used PE 0 (itself)", "128 bytes", "the 100 bytes"},
       on_first({}, source_past_the_end)},
      {"destination_past_the_end",
       {"the destination of get used PE 0 (itself)", "128 bytes"},
       on_first({}, destination_past_the_end)},
      {"p_past_the_end",
       {"p used PE 1", "0 bytes behind the 128 bytes"},
       on_first({}, p_past_the_end)},
      {"g_far_outside", {"g used PE 1", "no allocation"}, on_first({}, g_far_outside)},
      {"add_past_the_end",
       {"atomic_fetch_add used PE 1", "behind the 128 bytes"},
       on_first({}, add_past_the_end)},
      {"signal_outside",
       {"the signal of put_signal used PE 1", "behind the 128 bytes"},
       on_first({.threads = 32}, signal_outside)},
      {"wait_outside",
       {"the word of wait_until used PE 0 (itself)", "8 bytes behind the 128 bytes"},
       on_first({}, wait_outside)},
      {"strides_past_the_end",
       {"put used PE 1", "0 bytes behind the 128 bytes"},
       on_first({}, strides_past_the_end)},
      {"runtime_memory",
       {"put used PE 1", "the runtime's own memory"},
       on_first({}, runtime_memory)},
      {"put_after_free",
       {"put used PE 1", "byte 8 of the freed 100 bytes", "free() gave back"},
       after_free(put_after_free),
       false,
       true},
      {"get_after_free",
       {"get used PE 1", "freed 100 bytes"},
       after_free(get_after_free),
       false,
       true},
      {"source_after_free",
       {"the source of put", "freed 100 bytes"},
       after_free(source_after_free),
       false,
       true},
      {"wait_after_free",
       {"the word of wait_until", "freed 100 bytes"},
       after_free(wait_after_free),
       false,
       true},
      {"gather_into_too_little",
       {"all_gather used PE", "the 128 bytes", "behind their end"},
       on_all({.threads = 32}, gather_into_too_little)},
      {"uneven_over_two_blocks",
       {"all_to_all_v used PE", "272 bytes", "the 100 bytes", "behind their end"},
       on_all({}, uneven_over_two_blocks)},
      {"reduce_from_freed",
       {"the source of all_reduce", "freed 100 bytes"},
       [](Runtime& pe, const Memory& memory) {
         pe.free(memory.block);
         on_all({.threads = 32}, reduce_from_freed)(pe, memory);
       },
       false,
       true},
  };
}

}  // namespace peal::planted
