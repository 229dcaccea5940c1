// SPDX-License-Identifier: Apache-2.0
//
// Long messages that only move: straight from the source at one member to the destination at
// another, stored by the lanes of the group where all members are mapped, else put by the NIC.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/collective/call.h"
#include "device/collective/spans.h"
#include "device/detail/transfer.h"
#include "device/transport/p2p.h"

namespace peal::collective {

/// What a call moves: blocks of `bytes` each.
struct Buffers {
  std::byte* dst;
  const std::byte* src;
  uint64_t bytes;

  PEAL_DEVICE std::byte* to(uint32_t block) const { return dst + block * bytes; }
  PEAL_DEVICE const std::byte* from(uint32_t block) const { return src + block * bytes; }
};

template <class T>
PEAL_DEVICE Buffers buffers_of(T* dst, const T* src, size_t count) {
  return {reinterpret_cast<std::byte*>(dst), reinterpret_cast<const std::byte*>(src),
          detail::bytes_of<T>(count)};
}

/// Calls over mapped memory move a message piece by piece. A lane's bytes of one piece, for which a
/// member's memory is looked up once.
inline constexpr uint64_t kBytesOfLane = 256;

/// Copies at home, unless it is there already.
template <class S>
PEAL_DEVICE void copy_at_home(S scope, void* dst, const void* src, uint64_t bytes) {
  if (dst != src && bytes != 0) p2p::copy<p2p::Direction::kPut>(scope, dst, src, bytes);
}

/// The same for calls by a NIC, once for all of them: a copy is long, and ptxas takes its time.
template <AnyScope S>
PEAL_DEVICE_COLD void copy_beside(S scope, void* dst, const void* src, uint64_t bytes) {
  copy_at_home(scope, dst, src, bytes);
}
template <Reach R, AnyScope S>
PEAL_DEVICE_COLD Status put_beside(const ContextState* state, S scope, detail::Put put) {
  return detail::access_peer(static_cast<const BasicContext<R>&>(state->fields), scope, put).status;
}

/// Starts putting `bytes` to `dst` at a member by the NIC. meet_after() completes it.
template <Reach R, AnyScope S>
PEAL_DEVICE Status post_put(const TeamCall<R>& call, S scope, uint32_t member, void* dst,
                            const void* src, uint64_t bytes) {
  if (bytes == 0) return Status::kOk;
  const int pe = world_pe(call.team, static_cast<int>(member));
  return put_beside<R>(call.ctx.state, scope,
                       detail::Put{dst, src, bytes, pe, detail::Until::kStarted});
}

/// Block `rank` of the destination at every member becomes a block of this one's source: block
/// `member`, or where all get the same, block 0.
/// Piece by piece: what is stored at home moves while the links carry the rest.
template <bool kSame, Reach R, class S>
PEAL_DEVICE void store_all(const TeamCall<R>& call, S scope, const Buffers& buffers) {
  std::byte* const dst = buffers.to(call.rank());
  const uint64_t piece = scope.size() * kBytesOfLane;
  for (uint64_t at = 0; at < buffers.bytes; at += piece) {
    const uint64_t bytes = buffers.bytes - at < piece ? buffers.bytes - at : piece;
    for (uint32_t i = 1; i < call.members(); ++i) {
      const uint32_t member = call.after(i);
      p2p::copy<p2p::Direction::kPut>(scope, call.at(member, dst) + at,
                                      buffers.from(kSame ? 0 : member) + at, bytes);
    }
    copy_at_home(scope, dst + at, buffers.from(kSame ? 0 : call.rank()) + at, bytes);
  }
}

template <bool kSame, Reach R, AnyScope S>
PEAL_DEVICE Status put_all(const TeamCall<R>& call, S scope, const Buffers& buffers) {
  std::byte* const dst = buffers.to(call.rank());
  Status status = Status::kOk;
  for (uint32_t i = 1; i < call.members(); ++i) {
    const uint32_t member = call.after(i);
    const Status sent =
        post_put(call, scope, member, dst, buffers.from(kSame ? 0 : member), buffers.bytes);
    if (status == Status::kOk) status = sent;
  }
  copy_beside(scope, dst, buffers.from(kSame ? 0 : call.rank()), buffers.bytes);
  return status;
}

/// The share of member `member`, where `count` things are dealt out in lines of `line`.
struct Share {
  uint64_t at;
  uint64_t count;
  PEAL_DEVICE static Share of(uint64_t count, uint32_t line, uint32_t member, uint32_t members) {
    const uint64_t lines = (count + line - 1) / line;
    const uint64_t each = (lines + members - 1) / members * line;
    const uint64_t at = each * member < count ? each * member : count;
    return {at, count - at < each ? count - at : each};
  }
};

/// Bytes of a broadcast's message from the root to the destinations of all others, in Units, which
/// fit all of them. A lane stores at the others what it has fetched itself: nobody waits between.
template <class Unit, Reach R, class S>
PEAL_DEVICE void relay_units(const TeamCall<R>& call, S scope, const Buffers& buffers,
                             uint32_t root, const Share& bytes) {
  constexpr uint32_t kBatch = p2p::detail::kShallow;
  const uint64_t piece = scope.size() * kBytesOfLane;
  const uint64_t end = bytes.at + bytes.count;
  for (uint64_t at = bytes.at; at < end; at += piece) {
    const uint64_t left = end - at < piece ? end - at : piece;
    const auto count = static_cast<uint32_t>(left / sizeof(Unit));
    auto* const mine = reinterpret_cast<Unit*>(buffers.dst + at);
    const auto* const from = reinterpret_cast<const Unit*>(call.at(root, buffers.src) + at);
    p2p::detail::copy_in_batches<kBatch, p2p::Direction::kGet>(scope, mine, from, count);
    for (uint32_t n = 1; n < call.members(); ++n) {
      const uint32_t member = call.after(n);
      if (member == root) continue;
      auto* const to = reinterpret_cast<Unit*>(call.at(member, buffers.dst) + at);
      p2p::detail::copy_in_batches<kBatch, p2p::Direction::kPut>(scope, to, mine, count);
    }
  }
}

/// In Units, and the bytes ahead of and behind what consists of them one by one.
template <class Unit, Reach R, class S>
PEAL_DEVICE void relay_by(const TeamCall<R>& call, S scope, const Buffers& buffers, uint32_t root,
                          const Share& share) {
  const auto place = reinterpret_cast<uint64_t>(call.at(root, buffers.src)) + share.at;
  uint64_t head = (0 - place) % sizeof(Unit);
  if (head > share.count) head = share.count;
  const uint64_t body = (share.count - head) / sizeof(Unit) * sizeof(Unit);
  const uint64_t behind = head + body;
  relay_units<std::byte>(call, scope, buffers, root, {share.at, head});
  relay_units<Unit>(call, scope, buffers, root, {share.at + head, body});
  relay_units<std::byte>(call, scope, buffers, root, {share.at + behind, share.count - behind});
}

/// A broadcast over mapped memory, by a member that is not the root: its share of the message to
/// all of them, so that the root's link carries the message once and each other link as much.
template <Reach R, class S>
PEAL_DEVICE void relay(const TeamCall<R>& call, S scope, const Buffers& buffers, uint32_t root) {
  const uint32_t behind_root = (call.rank() + call.members() - root - 1) % call.members();
  const Share share = Share::of(buffers.bytes, sizeof(Line), behind_root, call.members() - 1);
  // Parts of a window may begin at other places at each member.
  const auto source = reinterpret_cast<uint64_t>(call.at(root, buffers.src));
  uint64_t apart = 0;
  for (uint32_t n = 0; n < call.members(); ++n) {
    if (n != root) apart |= reinterpret_cast<uint64_t>(call.at(n, buffers.dst)) ^ source;
  }
  if (apart % sizeof(Line) == 0) {
    relay_by<Line>(call, scope, buffers, root, share);
  } else if (apart % 4 == 0) {
    relay_by<uint32_t>(call, scope, buffers, root, share);
  } else if (apart % 2 == 0) {
    relay_by<uint16_t>(call, scope, buffers, root, share);
  } else {
    relay_units<std::byte>(call, scope, buffers, root, share);
  }
}

/// A broadcast by the NIC: each member gets a share from the root and puts it to the others.
template <Reach R, AnyScope S>
PEAL_DEVICE Status put_from(const TeamCall<R>& call, S scope, const Buffers& buffers,
                            uint32_t root) {
  Status status = Status::kOk;
  const std::byte* const source = call.rank() == root ? buffers.src : buffers.dst;
  const auto share_of = [&](uint32_t member) {
    return Share::of(buffers.bytes, sizeof(Line), member, call.members());
  };
  const auto put_share = [&](uint32_t member, const Share& share) {
    const Status sent =
        post_put(call, scope, member, buffers.dst + share.at, source + share.at, share.count);
    if (status == Status::kOk) status = sent;
  };
  if (call.rank() == root) {
    for (uint32_t i = 1; i < call.members(); ++i) {
      put_share(call.after(i), share_of(call.after(i)));
    }
    copy_beside(scope, buffers.dst, buffers.src, buffers.bytes);
  }
  status = meet_after<false>(call, scope, status);
  const Share mine = share_of(call.rank());
  for (uint32_t i = 1; i < call.members() && status == Status::kOk; ++i) {
    if (call.after(i) != root) put_share(call.after(i), mine);
  }
  return status;
}

}  // namespace peal::collective
