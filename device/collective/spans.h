// SPDX-License-Identifier: Apache-2.0
//
// The memory that a collective call names: whether it is there, at every member that the call uses
// it at. All lanes of a group answer the same. What lies in the heap costs two comparisons; the
// rest is out of line.
//
// A PE whose memory is wrong refuses the call before it has told anybody: the others wait for it
// until their deadline, as they do where the team is wrong.
#pragma once

#include <cstdint>

#include "device/base/call.h"
#include "device/base/scaled.h"
#include "device/base/scope.h"
#include "device/detail/checked.h"
#include "device/detail/resolve.h"
#include "device/team.h"

namespace peal::collective {

/// Members at which a call uses a buffer.
enum class At : uint32_t { kHere, kRoot, kAll };

/// Bytes from `address` on, this PE's own address. An empty span may lie anywhere.
struct Span {
  const void* address;
  uint64_t bytes;
  At at;
};

/// `count` blocks of `bytes` bytes.
PEAL_HD Span blocks_at(const void* address, uint64_t bytes, uint32_t count, At at) {
  return {address, scaled(bytes, count), at};
}

/// What a call stores to, and what it loads from; or two lists that tell it where those are.
struct Spans {
  Span dst;
  Span src;
  bool lists = false;
};

PEAL_HD bool in_heap(const ContextFields& ctx, const Span& span) {
  return (span.bytes == 0) | detail::in_heap(ctx, span.address, span.bytes);
}

/// By its own address: what a call uses at home no handle names.
PEAL_DEVICE Status look_at(ContextState* state, const Team& team, const Span& span, CallSide side,
                           Call call, int root) {
  const ContextFields& ctx = state->fields;
  if (in_heap(ctx, span)) return Status::kOk;
  const int first = span.at == At::kAll ? 0 : span.at == At::kRoot ? root : team.rank;
  const int last = span.at == At::kAll ? team.size - 1 : first;
  for (int member = first; member <= last; ++member) {
    const detail::Asked asked{.address = span.address,
                              .bytes = span.bytes,
                              .pe = world_pe(team, member),
                              .call = call,
                              .side = side};
    const bool right =
        !detail::names_window(span.address) && detail::find_symmetric(ctx, asked).window != nullptr;
    if (right) continue;
    return detail::refuse(state, Status::kNotSymmetric, asked);
  }
  return Status::kOk;
}

template <AnyScope S>
PEAL_DEVICE_COLD Status look_elsewhere(ContextState* state, S lanes, Team team, Spans spans,
                                       Call call, int root) {
  // By one lane: windows come and go, and the lanes must agree.
  return by_leader(lanes, [&] {
    const CallSide to = spans.lists ? CallSide::kWord : CallSide::kThere;
    const CallSide from = spans.lists ? CallSide::kWord : CallSide::kHere;
    const Status stores = look_at(state, team, spans.dst, to, call, root);
    return stores != Status::kOk ? stores : look_at(state, team, spans.src, from, call, root);
  });
}

template <AnyScope S>
PEAL_DEVICE Status look(const ContextFields& ctx, S lanes, const Team& team, const Spans& spans,
                        Call call, int root) {
  const bool to = in_heap(ctx, spans.dst);
  const bool from = in_heap(ctx, spans.src);
  if (to & from) return Status::kOk;
  return call_cold<&look_elsewhere<S>>(ctx.state, lanes, team, spans, call, root);
}

/// What checked mode says of memory whose length no note tells, for lists do.
template <AnyScope S>
PEAL_DEVICE Status look_checked(const ContextFields& ctx, S lanes, const Spans& spans, Call call) {
  if (!detail::checks_calls(ctx.state)) return Status::kOk;
  return by_leader(lanes, [&] {
    const auto& [dst, src, lists] = spans;
    const Status stores =
        detail::look_at_more(ctx.state, dst.address, dst.bytes, call, CallSide::kThere);
    if (stores != Status::kOk) return stores;
    return detail::look_at_more(ctx.state, src.address, src.bytes, call, CallSide::kHere);
  });
}

/// The memory of a call of run(). One with lists of its own has a look_at_all() of its own.
template <AnyScope S, class Op>
PEAL_DEVICE Status look_at_all(const ContextFields& ctx, S lanes, const Team& team, const Op& op) {
  return look(ctx, lanes, team, op.spans(static_cast<uint32_t>(team.size)), op.which(), op.root());
}

PEAL_DEVICE_COLD inline uint64_t place_elsewhere(const ContextState* state, const void* address) {
  const detail::WindowOffset place =
      detail::find_window(state->fields.windows, address, 1, detail::Side::kPeer);
  return place.offset | uint64_t{1} << 63;
}

/// Where symmetric memory lies, alike at all members.
PEAL_DEVICE uint64_t place_of(const ContextFields& ctx, const void* address) {
  const uint64_t offset = detail::offset_in(ctx.heap, address);
  return offset < ctx.heap.bytes ? offset : place_elsewhere(ctx.state, address);
}

}  // namespace peal::collective
