// SPDX-License-Identifier: Apache-2.0
//
// The collective calls that move data, as calls (run.h). Those that reduce: reduction.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/collective/carry.h"
#include "device/collective/exchange.h"
#include "device/collective/move.h"
#include "device/collective/swap.h"
#include "device/shared/algorithms.h"
#include "device/shared/call_list.h"

namespace peal::collective {

PEAL_DEVICE Signature signature_of(Call call, const ContextFields& ctx, const void* dst,
                                   const void* src) {
  return Signature(static_cast<uint32_t>(call)).with(place_of(ctx, dst)).with(place_of(ctx, src));
}

struct Broadcast {
  Buffers buffers;
  int from;

  static constexpr Call kCall = Call::kBroadcast;
  PEAL_DEVICE static Call which() { return kCall; }
  PEAL_DEVICE int root() const { return from; }
  PEAL_DEVICE uint64_t bytes() const { return buffers.bytes; }
  PEAL_DEVICE Spans spans(uint32_t) const {
    return {{buffers.dst, buffers.bytes, At::kAll}, {buffers.src, buffers.bytes, At::kRoot}};
  }
  PEAL_DEVICE Signature signature(const ContextFields& ctx) const {
    return signature_of(which(), ctx, buffers.dst, buffers.src).with(buffers.bytes).with(member());
  }
  template <Reach R, class S>
  PEAL_DEVICE Status brief(const TeamCall<R>& call, S group, uint32_t signature) const {
    return exchange_from(call, group, from_root(signature));
  }
  template <Reach R, class S>
  PEAL_DEVICE Status mapped(const TeamCall<R>& call, S group, Algorithm algorithm) const {
    if (call.rank() == member()) {
      copy_at_home(group, buffers.dst, buffers.src, buffers.bytes);
    } else if (algorithm == Algorithm::kRelay) {
      relay(call, group, buffers, member());
    } else {
      p2p::copy<p2p::Direction::kGet>(group, buffers.dst, call.at(member(), buffers.src),
                                      buffers.bytes);
    }
    return Status::kOk;
  }
  PEAL_DEVICE Cargo cargo(uint32_t) const { return {buffers.src, buffers.bytes, from}; }
  template <Reach R, AnyScope S>
  PEAL_DEVICE void take(const TeamCall<R>&, S lanes, const Cargo&, const std::byte* set) const {
    copy_beside(lanes, buffers.dst, set, buffers.bytes);
  }
  template <Reach R, AnyScope S>
  PEAL_DEVICE Status by_nic(const TeamCall<R>& call, S lanes, Algorithm) const {
    return put_from(call, lanes, buffers, member());
  }
  PEAL_DEVICE uint32_t member() const { return static_cast<uint32_t>(from); }
  PEAL_DEVICE FromRoot from_root(uint32_t signature) const {
    return {member(), signature, buffers.dst, buffers.src, buffers.bytes};
  }
};

/// The short form of all_gather (kSame) and all_to_all: every member gets this PE's block 0, or its
/// own; what member i sends becomes block i.
template <bool kSame>
struct ShortBlocks {
  const Buffers& buffers;
  PEAL_DEVICE uint64_t given(uint32_t member, uint32_t unit) const {
    return load_unit(buffers.from(kSame ? 0 : member), buffers.bytes, unit);
  }
  struct Taking {
    const Buffers& buffers;
    uint32_t unit;
    PEAL_DEVICE void take(uint32_t member, uint64_t value) const {
      store_unit(buffers.to(member), buffers.bytes, unit, value);
    }
    PEAL_DEVICE void done() const {}
  };
  PEAL_DEVICE Taking taking(uint32_t unit) const { return {buffers, unit}; }
};

struct AllGather {
  Buffers buffers;

  static constexpr Call kCall = Call::kAllGather;
  PEAL_DEVICE static Call which() { return kCall; }
  PEAL_DEVICE int root() const { return 0; }
  PEAL_DEVICE uint64_t bytes() const { return buffers.bytes; }
  PEAL_DEVICE Spans spans(uint32_t members) const {
    return {blocks_at(buffers.dst, buffers.bytes, members, At::kAll),
            {buffers.src, buffers.bytes, At::kHere}};
  }
  /// In place each member's source is another part of the object: they agree on dst.
  PEAL_DEVICE Signature signature(const ContextFields& ctx) const {
    return signature_of(which(), ctx, buffers.dst, buffers.dst).with(buffers.bytes);
  }
  template <Reach R, class S>
  PEAL_DEVICE Status brief(const TeamCall<R>& call, S group, uint32_t signature) const {
    return exchange_all(call, group, {buffers.bytes, signature}, ShortBlocks<true>{buffers});
  }
  template <Reach R, class S>
  PEAL_DEVICE Status mapped(const TeamCall<R>& call, S group, Algorithm) const {
    store_all<true>(call, group, buffers);
    return Status::kOk;
  }
  PEAL_DEVICE Cargo cargo(uint32_t) const { return {buffers.src, buffers.bytes}; }
  template <Reach R, AnyScope S>
  PEAL_DEVICE void take(const TeamCall<R>& call, S lanes, const Cargo& cargo,
                        const std::byte* set) const {
    for (uint32_t i = 0; i < call.members(); ++i) {
      copy_beside(lanes, buffers.to(i), set + cargo.place(i), buffers.bytes);
    }
  }
  template <Reach R, AnyScope S>
  PEAL_DEVICE Status by_nic(const TeamCall<R>& call, S lanes, Algorithm) const {
    return put_all<true>(call, lanes, buffers);
  }
};

struct AllToAll {
  Buffers buffers;

  static constexpr Call kCall = Call::kAllToAll;
  PEAL_DEVICE static Call which() { return kCall; }
  PEAL_DEVICE int root() const { return 0; }
  PEAL_DEVICE uint64_t bytes() const { return buffers.bytes; }
  PEAL_DEVICE bool in_place() const { return buffers.dst == buffers.src; }
  PEAL_DEVICE Spans spans(uint32_t members) const {
    return {blocks_at(buffers.dst, buffers.bytes, members, At::kAll),
            blocks_at(buffers.src, buffers.bytes, members, At::kHere)};
  }
  PEAL_DEVICE Signature signature(const ContextFields& ctx) const {
    return signature_of(which(), ctx, buffers.dst, buffers.src).with(buffers.bytes);
  }
  template <Reach R, class S>
  PEAL_DEVICE Status brief(const TeamCall<R>& call, S group, uint32_t signature) const {
    return exchange_all(call, group, {buffers.bytes, signature}, ShortBlocks<false>{buffers});
  }
  template <Reach R, class S>
  PEAL_DEVICE Status mapped(const TeamCall<R>& call, S group, Algorithm algorithm) const {
    if (algorithm == Algorithm::kStore) {
      store_all<false>(call, group, buffers);
    } else {
      swap_all_mapped(call, group, buffers.dst, buffers.bytes);
    }
    return Status::kOk;
  }
  /// All get what is for all: few bytes more cost less than rounds.
  PEAL_DEVICE Cargo cargo(uint32_t members) const { return {buffers.src, members * buffers.bytes}; }
  template <Reach R, AnyScope S>
  PEAL_DEVICE void take(const TeamCall<R>& call, S lanes, const Cargo& cargo,
                        const std::byte* set) const {
    for (uint32_t i = 0; i < call.members(); ++i) {
      copy_beside(lanes, buffers.to(i), set + cargo.place(i) + call.rank() * buffers.bytes,
                  buffers.bytes);
    }
  }
  template <Reach R, AnyScope S>
  PEAL_DEVICE Status by_nic(const TeamCall<R>& call, S lanes, Algorithm algorithm) const {
    if (algorithm == Algorithm::kPut) return put_all<false>(call, lanes, buffers);
    return swap_all_staged(call, lanes, buffers.dst, buffers.bytes);
  }
};

}  // namespace peal::collective
