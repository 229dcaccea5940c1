// SPDX-License-Identifier: Apache-2.0
//
// The kernels that are timed, written once: for every way of repeating a call one. An Api names in
// its Kernels those that it has calls for. All loops end when a call fails.
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
struct GridAgent {
  PEAL_DEVICE static uint64_t rank() { return thread_in_grid(); }
  PEAL_DEVICE static uint64_t size() { return threads_in_grid(); }
};

/// Number of the calling agent among its like.
PEAL_DEVICE uint64_t agent_in_grid(Thread) { return thread_in_grid(); }
PEAL_DEVICE uint64_t agent_in_grid(Warp) {
  const uint32_t warps = (threads_in_block() + kWarpLanes - 1) / kWarpLanes;
  return block_in_grid() * warps + thread_in_block() / kWarpLanes;
}
PEAL_DEVICE uint64_t agent_in_grid(Block) { return block_in_grid(); }
PEAL_DEVICE uint64_t agent_in_grid(GridAgent) { return 0; }

/// Where an agent's bytes of slot 0 begin, and how many each of its calls moves.
struct AgentShare {
  uint64_t begin;
  uint64_t bytes;

  /// Agents of equal size get equal parts, whole lines, of a shared message; small messages have
  /// not enough of them for all. By divisions on the GPU: their results ptxas keeps in registers,
  /// others it computes again before every call, which costs small messages up to a fifth.
  template <class Scope>
  PEAL_DEVICE static AgentShare of(Scope scope, const Plan& plan) {
    const uint64_t agent = agent_in_grid(scope);
    if (!plan.shared) return {agent * plan.span, plan.bytes};
    constexpr uint64_t kLine = 16;
    const uint64_t agents = threads_in_grid() / scope.size();
    const uint64_t part = ((plan.bytes + agents - 1) / agents + kLine - 1) / kLine * kLine;
    const uint64_t begin = agent * part;
    if (begin >= plan.bytes) return {0, 0};
    return {begin, plan.bytes - begin < part ? plan.bytes - begin : part};
  }
};

PEAL_DEVICE Status first_of(Status first, Status second) {
  return first != Status::kOk ? first : second;
}

PEAL_DEVICE uint64_t slot_after(const Plan& plan, uint64_t at) {
  return at + plan.stride == plan.span ? 0 : at + plan.stride;
}

/// Every agent posts its calls, then the block waits for all of them.
template <class Api, class Call, class Scope>
PEAL_KERNEL PEAL_MAX_THREADS(1024) stream(Api api, Plan plan, BlockTime* times) {
  const Scope scope;
  const AgentShare share = AgentShare::of(scope, plan);
  Status status = Status::kOk;
  block.sync();
  const uint64_t begin = now_ns();
  if (share.bytes != 0) {
    uint64_t at = plan.first * plan.stride % plan.span;
    for (uint64_t i = 0; i < plan.iterations && status == Status::kOk; ++i) {
      const AgentTurn<Api, Scope> turn{
          api, scope, plan, at + share.begin, share.bytes, plan.first + i, agent_in_grid(scope)};
      at = slot_after(plan, at);
      status = Call::post(turn);
    }
  }
  block.sync();  // all have posted
  if (block.leader()) {
    status = first_of(status, api.quiet());
    times[block_in_grid()] = {begin, now_ns()};
  }
  count_failure(plan, status);
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
  Status status = Status::kOk;
  uint64_t wrong = 0;
  uint64_t at = plan.first * plan.stride % plan.span;
  const uint64_t begin = now_ns();
  for (uint64_t i = 0; i < plan.iterations && status == Status::kOk;
       ++i, at = slot_after(plan, at)) {
    const AgentTurn<Api, Scope> turn{api, scope, plan, at, plan.bytes, plan.first + i, 0};
    const uint64_t sent = kMode == Mode::kEach ? now_ns() : 0;
    if (Call::kWay == CallWay::kCall || plan.leads) status = Call::send(turn);
    if constexpr (Call::kWay == CallWay::kBounce) {
      if (status == Status::kOk) status = Call::take(turn);
    }
    if constexpr (kMode == Mode::kEach) {
      if (scope.leader()) plan.samples[i] = now_ns() - sent;
    }
    if constexpr (Call::kWay == CallWay::kBounce) {
      if constexpr (kMode == Mode::kLook && Call::kOp != Op::kWord) {
        const auto* word = reinterpret_cast<const uint64_t*>(plan.dst + at);
        if (load_relaxed<Reach::kSystem>(word) != pattern_word(plan.peers_seed, at / 8)) ++wrong;
      }
      if (!plan.leads && status == Status::kOk) status = Call::send(turn);
    }
  }
  scope.sync();
  if (!scope.leader()) return;
  if constexpr (kMode == Mode::kEach) status = first_of(status, api.quiet());
  times[0] = {begin, now_ns()};
  count_errors(plan.errors, wrong);
  count_failure(plan, status);
}

/// When it looks: every PE tells all others the number of the barrier first, and finds theirs after
/// it. A fast PE may be one ahead.
template <class Api, class Scope, Mode kMode>
PEAL_KERNEL PEAL_MAX_THREADS(1024) barriers(Api api, Plan plan, BlockTime* times) {
  const Scope scope;
  const bool looks = kMode == Mode::kLook && scope.leader();
  Status status = Status::kOk;
  uint64_t wrong = 0;
  scope.sync();
  const uint64_t begin = now_ns();
  for (uint64_t i = 0; i < plan.iterations && status == Status::kOk; ++i) {
    const uint64_t number = plan.first + i + 1;
    for (int pe = 0; looks && pe < plan.n_pes; ++pe) {
      if (pe != plan.pe) (void)api.p(plan.words + plan.pe, number, pe);
    }
    status = api.barrier(scope);
    for (int pe = 0; looks && pe < plan.n_pes; ++pe) {
      const uint64_t heard = load_relaxed<Reach::kSystem>(plan.words + pe);
      if (pe != plan.pe && heard < number) ++wrong;
    }
  }
  if (scope.leader()) {
    times[0] = {begin, now_ns()};
    count_errors(plan.errors, wrong);
    count_failure(plan, status);
  }
}

/// All PEs' `mine`, in PE 0's table. One thread.
template <class Api, class Item>
PEAL_KERNEL collect(Api api, Item* table, Item* mine, Plan plan) {
  for (int pe = 0; pe < plan.n_pes; ++pe) {
    count_failure(plan, api.get(thread, reinterpret_cast<std::byte*>(table + pe),
                                reinterpret_cast<std::byte*>(mine), sizeof(Item), pe));
  }
  count_failure(plan, api.quiet());
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
using CaseKernel = void (*)(Api, Plan, BlockTime*);

template <class Scope>
inline constexpr ScopeKind kKind = std::is_same_v<Scope, Thread> ? ScopeKind::kThread
                                   : std::is_same_v<Scope, Warp> ? ScopeKind::kWarp
                                                                 : ScopeKind::kBlock;

template <class Call, class Scope>
bool fits(const Case& c, CallWay way) {
  return c.what.way == way && c.what.op == Call::kOp && c.scope == kKind<Scope> &&
         (Call::kBytes == 0 || Call::kBytes == c.bytes);
}

/// Whether the Api deals a message out over the whole grid.
template <class Api>
constexpr bool over_grid() {
  if constexpr (requires { Api::kOverGrid; }) return Api::kOverGrid;
  return false;
}

/// Warm is the call that warms up.
template <class Call, class Scope = Thread, class Warm = Call>
struct Streams {
  template <class Api>
  static CaseKernel<Api> kernel(const Case& c, Mode mode) {
    using Agent = std::conditional_t<over_grid<Api>(), GridAgent, Scope>;
    if (!fits<Call, Scope>(c, CallWay::kStream)) return nullptr;
    return mode == Mode::kLook ? stream<Api, Warm, Agent> : stream<Api, Call, Agent>;
  }
};

template <class Call, class Scope = Thread>
struct Timed {
  template <class Api>
  static CaseKernel<Api> kernel(const Case& c, Mode mode) {
    if (!fits<Call, Scope>(c, Call::kWay)) return nullptr;
    if constexpr (Call::kWay == CallWay::kBounce) {
      if (mode == Mode::kLook) return exchange<Api, Call, Scope, Mode::kLook>;
    }
    return exchange<Api, Call, Scope, Mode::kWhole>;
  }
};

template <class Call, class Scope = Thread>
struct Sampled {
  template <class Api>
  static CaseKernel<Api> kernel(const Case& c, Mode) {
    return fits<Call, Scope>(c, Call::kWay) ? exchange<Api, Call, Scope, Mode::kEach> : nullptr;
  }
};

template <class Scope>
struct Barriers {
  template <class Api>
  static CaseKernel<Api> kernel(const Case& c, Mode mode) {
    if (c.what.op != Op::kBarrier || c.scope != kKind<Scope>) return nullptr;
    return mode == Mode::kLook ? barriers<Api, Scope, Mode::kLook>
                               : barriers<Api, Scope, Mode::kWhole>;
  }
};

template <class... Entries>
struct List {
  template <class Api>
  static CaseKernel<Api> kernel(const Case& c, Mode mode) {
    CaseKernel<Api> found = nullptr;
    (void)(((found = Entries::template kernel<Api>(c, mode)) != nullptr) || ...);
    return found;
  }
};

template <template <class, class...> class Entry, class... Calls>
struct InAllScopes : List<Entry<Calls, Thread>..., Entry<Calls, Warp>..., Entry<Calls, Block>...> {
};

}  // namespace peal::perf
