// SPDX-License-Identifier: Apache-2.0
//
// What a kernel is given: a context, by value. It holds no queue and no key itself, it points at
// the tables that do, so it stays valid while windows are registered and costs a kernel a few
// registers.
#pragma once

#include <type_traits>

#include "device/base/access.h"
#include "device/shared/context_fields.h"

namespace peal {

/// R says who may use the context's queues at a time:
///
///   Context           any lane of the GPU
///   BlockContext      the lanes of one block
///   ExclusiveContext  one thread, warp or block: no atomics on the way of a put
///
/// Where blocks own queues (the last two) each block uses its own, block % queues_per_peer, and
/// nobody else touches them: quiet, fence and barriers drain the queues of their caller.
template <Reach R>
struct BasicContext : ContextFields {
  static constexpr Reach kReach = R;
};

using Context = BasicContext<Reach::kGpu>;
using BlockContext = BasicContext<Reach::kBlock>;
using ExclusiveContext = BasicContext<Reach::kLane>;

static_assert(std::is_trivially_copyable_v<Context> && sizeof(Context) <= 256);

/// This PE's number and how many there are.
PEAL_HD int my_pe(const ContextFields& ctx) { return ctx.pe; }
PEAL_HD int n_pes(const ContextFields& ctx) { return ctx.n_pes; }

}  // namespace peal
