// SPDX-License-Identifier: Apache-2.0
//
// The kernels that are timed, written once: for every way of repeating a call one. An Api names in
// its Kernels those that it has calls for. All loops end when a call fails. Errors of any kind are
// added to one word.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "device/base/launch.h"
#include "device/base/order.h"
#include "device/base/spin.h"
#include "perf/common/calls.h"

namespace peal::perf {

/// All lanes of the grid as if they were one block: for copies that deal a message out line by
/// line.
struct WholeGrid {
  PEAL_DEVICE static uint64_t rank() { return thread_in_grid(); }
  PEAL_DEVICE static uint64_t size() { return threads_in_grid(); }
};

/// Number of the calling agent among its like.
PEAL_DEVICE uint32_t agent_in_grid(Thread) { return static_cast<uint32_t>(thread_in_grid()); }
PEAL_DEVICE uint32_t agent_in_grid(Warp) {
  const uint32_t warps = (threads_in_block() + kWarpLanes - 1) / kWarpLanes;
  return block_in_grid() * warps + thread_in_block() / kWarpLanes;
}
PEAL_DEVICE uint32_t agent_in_grid(Block) { return block_in_grid(); }
PEAL_DEVICE uint32_t agent_in_grid(WholeGrid) { return 0; }

PEAL_DEVICE uint64_t slot_after(const Plan& plan, uint64_t at) {
  return at + plan.stride == plan.span ? 0 : at + plan.stride;
}

/// Every agent posts its calls, then the block waits for all of them.
template <class Api, class Call, class Scope>
PEAL_KERNEL PEAL_MAX_THREADS(1024) stream(Api api, Plan plan, BlockTime* times) {
  const Scope scope;
  const uint32_t agent = agent_in_grid(scope);
  const uint64_t part = agent * plan.part;
  const uint64_t left = part < plan.limit ? plan.limit - part : 0;
  const uint64_t bytes = left < plan.call ? left : plan.call;
  bool ok = true;
  block.sync();
  const uint64_t begin = now_ns();
  if (bytes != 0) {
    uint64_t at = plan.first * plan.stride % plan.span;
    for (uint64_t i = 0; i < plan.iterations && ok; ++i) {
      const Turn<Api, Scope> turn{api, scope, plan, at + part, bytes, 0, agent};
      at = slot_after(plan, at);
      ok = Call::post(turn);
    }
  }
  block.sync();  // all have posted
  if (block.leader()) {
    ok = api.quiet() && ok;
    times[block_in_grid()] = {begin, now_ns()};
  }
  if (!ok) count_errors(plan.errors, 1);
}

enum class Mode {
  kWhole,  // only begin and end
  kLook,   // the same, and looks at messages as they come, which costs time: the warm-up does
  kEach,   // the time of each call, as the leader sees it
};

/// One agent, one call after another. Of a pair that bounces, one PE sends, the other one answers.
/// No bound on its threads: with one, ptxas keeps to few registers and spills in every call.
template <class Api, class Call, class Scope, Mode kMode>
PEAL_KERNEL exchange(Api api, Plan plan, BlockTime* times) {
  if (plan.peer < 0) return;
  const Scope scope;
  bool ok = true;
  uint64_t wrong = 0;
  uint64_t at = plan.first * plan.stride % plan.span;
  const uint64_t begin = now_ns();
  for (uint64_t i = 0; i < plan.iterations && ok; ++i, at = slot_after(plan, at)) {
    const Turn<Api, Scope> turn{api, scope, plan, at, plan.bytes, plan.first + i, 0};
    const uint64_t sent = kMode == Mode::kEach ? now_ns() : 0;
    if (Call::kWay == Way::kCall || plan.leads) ok = Call::send(turn);
    if constexpr (Call::kWay == Way::kBounce) ok = ok && Call::take(turn);
    if constexpr (kMode == Mode::kEach) {
      if (scope.leader()) plan.samples[i] = now_ns() - sent;
    }
    if constexpr (Call::kWay == Way::kBounce) {
      if constexpr (kMode == Mode::kLook && Call::kOp != Op::kWord) {
        const auto* word = reinterpret_cast<const uint64_t*>(plan.dst + at);
        if (load_relaxed<Reach::kSystem>(word) != pattern_word(plan.peers_seed, at / 8)) ++wrong;
      }
      if (!plan.leads && ok) ok = Call::send(turn);
    }
  }
  scope.sync();
  if (!scope.leader()) return;
  if constexpr (kMode == Mode::kEach) ok = api.quiet() && ok;
  times[0] = {begin, now_ns()};
  count_errors(plan.errors, wrong + (ok ? 0 : 1));
}

/// When it looks: every PE tells all others the number of the barrier first, and finds theirs after
/// it. A fast PE may be one ahead.
template <class Api, class Scope, Mode kMode>
PEAL_KERNEL PEAL_MAX_THREADS(1024) barriers(Api api, Plan plan, BlockTime* times) {
  const Scope scope;
  const bool looks = kMode == Mode::kLook && scope.leader();
  bool ok = true;
  uint64_t wrong = 0;
  scope.sync();
  const uint64_t begin = now_ns();
  for (uint64_t i = 0; i < plan.iterations && ok; ++i) {
    const uint64_t number = plan.first + i + 1;
    for (int pe = 0; looks && pe < plan.n_pes; ++pe) {
      if (pe != plan.pe) (void)api.p(plan.words + plan.pe, number, pe);
    }
    ok = api.barrier(scope);
    for (int pe = 0; looks && pe < plan.n_pes; ++pe) {
      const uint64_t heard = load_relaxed<Reach::kSystem>(plan.words + pe);
      if (pe != plan.pe && heard < number) ++wrong;
    }
  }
  if (scope.leader()) {
    times[0] = {begin, now_ns()};
    count_errors(plan.errors, wrong + (ok ? 0 : 1));
  }
}

/// All PEs' `mine`, in PE 0's table. One thread.
template <class Api, class Item>
PEAL_KERNEL collect(Api api, Item* table, Item* mine, int n_pes, uint64_t* errors) {
  for (int pe = 0; pe < n_pes; ++pe) {
    const bool ok = api.get(thread, reinterpret_cast<std::byte*>(table + pe),
                            reinterpret_cast<std::byte*>(mine), sizeof(Item), pe);
    if (!ok) count_errors(errors, 1);
  }
  if (!api.quiet()) count_errors(errors, 1);
}

/// The smallest step of the clock that everything is timed with. One thread.
PEAL_KERNEL clock_step(uint64_t* step_ns) {
  uint64_t least = ~uint64_t{0};
  uint64_t last = now_ns();
  for (int turn = 0; turn < 4096; ++turn) {
    const uint64_t now = now_ns();
    if (now != last && now - last < least) least = now - last;
    last = now;
  }
  *step_ns = least;
}

// Which kernel is a case's: kernel<Api>(case, mode) of a list's first entry that has one, or
// nullptr.

template <class Api>
using Kernel = void (*)(Api, Plan, BlockTime*);

template <class Scope>
inline constexpr ScopeKind kKind = std::is_same_v<Scope, Thread> ? ScopeKind::kThread
                                   : std::is_same_v<Scope, Warp> ? ScopeKind::kWarp
                                                                 : ScopeKind::kBlock;

template <class Call, class Scope>
bool fits(const Case& c, Way way) {
  return c.what.way == way && c.what.op == Call::kOp && c.scope == kKind<Scope> &&
         (Call::kBytes == 0 || Call::kBytes == c.bytes);
}

/// Whether the Api deals a message out over the whole grid.
template <class Api>
constexpr bool over_grid() {
  if constexpr (requires { Api::kOverGrid; }) return Api::kOverGrid;
  return false;
}

template <class Call, class Scope = Thread>
struct Streams {
  template <class Api>
  static Kernel<Api> kernel(const Case& c, Mode) {
    if (!fits<Call, Scope>(c, Way::kStream)) return nullptr;
    return stream<Api, Call, std::conditional_t<over_grid<Api>(), WholeGrid, Scope>>;
  }
};

template <class Call, class Scope = Thread>
struct Timed {
  template <class Api>
  static Kernel<Api> kernel(const Case& c, Mode mode) {
    if (!fits<Call, Scope>(c, Call::kWay)) return nullptr;
    if constexpr (Call::kWay == Way::kBounce) {
      if (mode == Mode::kLook) return exchange<Api, Call, Scope, Mode::kLook>;
    }
    return exchange<Api, Call, Scope, Mode::kWhole>;
  }
};

template <class Call, class Scope = Thread>
struct Sampled {
  template <class Api>
  static Kernel<Api> kernel(const Case& c, Mode) {
    return fits<Call, Scope>(c, Call::kWay) ? exchange<Api, Call, Scope, Mode::kEach> : nullptr;
  }
};

template <class Scope>
struct Barriers {
  template <class Api>
  static Kernel<Api> kernel(const Case& c, Mode mode) {
    if (c.what.op != Op::kBarrier || c.scope != kKind<Scope>) return nullptr;
    return mode == Mode::kLook ? barriers<Api, Scope, Mode::kLook>
                               : barriers<Api, Scope, Mode::kWhole>;
  }
};

template <class... Entries>
struct List {
  template <class Api>
  static Kernel<Api> kernel(const Case& c, Mode mode) {
    Kernel<Api> found = nullptr;
    (void)(((found = Entries::template kernel<Api>(c, mode)) != nullptr) || ...);
    return found;
  }
};

}  // namespace peal::perf
