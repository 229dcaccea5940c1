// SPDX-License-Identifier: Apache-2.0
//
// all_to_all with a count for each member, as a call (run.h). A sender looks up where its block
// goes in the receiver's own list, which is symmetric memory, and that the receiver expects as
// much.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/collective/move.h"
#include "device/collective/operations.h"
#include "device/detail/words.h"
#include "device/shared/algorithms.h"
#include "device/types.h"

namespace peal::collective {

/// The lists of what is received are symmetric, as dst and src are.
template <class I>
struct AllToAllV {
  std::byte* dst;
  const std::byte* src;
  Blocks<I> received;
  Blocks<I> sent;
  uint64_t element_bytes;

  static constexpr Call kCall = Call::kAllToAllV;
  PEAL_DEVICE static Call which() { return kCall; }
  PEAL_DEVICE int root() const { return 0; }
  /// It has no short form: what is looked up first takes as long.
  PEAL_DEVICE uint64_t bytes() const { return ~uint64_t{0}; }
  /// Where a member's source lies nobody else asks.
  PEAL_DEVICE Signature signature(const ContextFields& ctx) const {
    return signature_of(which(), ctx, dst, received.counts)
        .with(place_of(ctx, received.displacements))
        .with(element_bytes);
  }
  /// What the others look up.
  PEAL_DEVICE Spans lists(uint32_t members) const {
    return {{received.counts, members * sizeof(I), At::kAll},
            {received.displacements, members * sizeof(I), At::kAll},
            true};
  }
  /// As far as this PE's own lists go. What is less than 0 is very long.
  PEAL_DEVICE Spans spans(uint32_t members) const {
    Spans needed{{dst, 0, At::kHere}, {src, 0, At::kHere}};
    for (uint32_t member = 0; member < members; ++member) {
      needed.dst.bytes = longer(needed.dst.bytes, end_of_block(received, member));
      needed.src.bytes = longer(needed.src.bytes, end_of_block(sent, member));
    }
    return needed;
  }
  /// Piece by piece, as store_all(): what is stored at home moves while the links carry the rest.
  template <Reach R, class S>
  PEAL_DEVICE Status mapped(const TeamCall<R>& call, S group, Algorithm) const {
    const uint64_t piece = group.size() * kBytesOfLane;
    uint64_t longest = 0;
    Status status = Status::kOk;
    for (uint32_t i = 0; i < call.members(); ++i) {
      const uint64_t expected = expected_at(call, call.after(i));
      if (expected != bytes_to(call.after(i))) status = Status::kMismatch;
      longest = longer(longest, expected);
    }
    for (uint64_t at = 0; at < longest; at += piece) {
      for (uint32_t i = 1; i <= call.members(); ++i) {  // this PE's own block last
        const uint32_t member = call.after(i % call.members());
        const uint64_t bytes = bytes_to(member);
        if (at >= bytes || bytes != expected_at(call, member)) continue;
        const I place = load_direct(call.at(member, received.displacements) + call.rank());
        p2p::copy<p2p::Direction::kPut>(
            group, call.at(member, dst) + static_cast<uint64_t>(place) * element_bytes + at,
            block(member) + at, bytes - at < piece ? bytes - at : piece);
      }
    }
    return status;
  }

  template <Reach R, AnyScope S>
  PEAL_DEVICE Status by_nic(const TeamCall<R>& call, S lanes, Algorithm) const {
    Status status = Status::kOk;
    for (uint32_t i = 0; i < call.members(); ++i) {
      const uint32_t member = call.after(i);
      const ReceivedBlock place = by_leader(lanes, [&] { return place_at(call, member); });
      const bool agreed = place.count == static_cast<uint64_t>(sent.counts[member]);
      Status one = place.status;
      if (one == Status::kOk && !agreed) one = Status::kMismatch;
      if (one == Status::kOk && member != call.rank()) {
        one = post_put(call, lanes, member, dst + place.at * element_bytes, block(member),
                       place.count * element_bytes);
      } else if (one == Status::kOk) {
        copy_beside(lanes, dst + place.at * element_bytes, block(member),
                    place.count * element_bytes);
      }
      if (status == Status::kOk) status = one;
    }
    return status;
  }

 private:
  PEAL_DEVICE static uint64_t longer(uint64_t one, uint64_t other) {
    return one < other ? other : one;
  }
  PEAL_DEVICE uint64_t end_of_block(const Blocks<I>& blocks, uint32_t member) const {
    const auto count = static_cast<uint64_t>(blocks.counts[member]);
    const auto at = static_cast<uint64_t>(blocks.displacements[member]);
    if (count == 0) return 0;
    return end_of(scaled(at, element_bytes), scaled(count, element_bytes));
  }
  struct ReceivedBlock {
    uint64_t count;
    uint64_t at;
    Status status;
    uint32_t unused;
  };
  PEAL_DEVICE uint64_t bytes_to(uint32_t member) const {
    return static_cast<uint64_t>(sent.counts[member]) * element_bytes;
  }
  /// What a member expects of this PE, by its own list.
  template <Reach R>
  PEAL_DEVICE uint64_t expected_at(const TeamCall<R>& call, uint32_t member) const {
    const I count = load_direct(call.at(member, received.counts) + call.rank());
    return static_cast<uint64_t>(count) * element_bytes;
  }
  PEAL_DEVICE const std::byte* block(uint32_t member) const {
    return src + static_cast<uint64_t>(sent.displacements[member]) * element_bytes;
  }
  template <Reach R>
  PEAL_DEVICE ReceivedBlock place_at(const TeamCall<R>& call, uint32_t member) const {
    const int pe = world_pe(call.team, static_cast<int>(member));
    const auto count = detail::get_value(call.ctx, received.counts + call.rank(), pe);
    if (count.status != Status::kOk) return {0, 0, count.status, 0};
    const auto at = detail::get_value(call.ctx, received.displacements + call.rank(), pe);
    return {static_cast<uint64_t>(count.value), static_cast<uint64_t>(at.value), at.status, 0};
  }
};

/// The lists first, for the rest is found by them.
template <AnyScope S, class I>
PEAL_DEVICE Status look_at_all(const ContextFields& ctx, S lanes, const Team& team,
                               const AllToAllV<I>& call) {
  const auto members = static_cast<uint32_t>(team.size);
  Status status = look(ctx, lanes, team, call.lists(members), call.which(), 0);
  if (status != Status::kOk) return status;
  if (call.sent.counts == nullptr || call.sent.displacements == nullptr) {
    const Span no_list{nullptr, members * sizeof(I), At::kHere};
    return look(ctx, lanes, team, {no_list, no_list, true}, call.which(), 0);
  }
  const Spans needed = call.spans(members);
  status = look(ctx, lanes, team, needed, call.which(), 0);
  if (status != Status::kOk) return status;
  // Where this PE sends, the destination begins.
  const Span begin{call.dst, needed.src.bytes == 0 ? 0u : 1u, At::kAll};
  status = look(ctx, lanes, team, {begin, {}}, call.which(), 0);
  return status != Status::kOk ? status : look_checked(ctx, lanes, needed, call.which());
}

}  // namespace peal::collective
