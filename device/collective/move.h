// SPDX-License-Identifier: Apache-2.0
//
// Long messages that only move: straight from the source at one member to the destination at
// another, between a meeting in which all say that they have begun and one in which all say that
// their part has arrived. Stored and loaded by the lanes of the group where all members are mapped,
// else put by the NIC.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/collective/call.h"
#include "device/detail/transfer.h"
#include "device/transport/p2p.h"

namespace peal::collective {

/// A grid's blocks copy for themselves, but one alone talks to a NIC.
template <Reach R, class S>
PEAL_DEVICE bool takes_part(const Call<R>& call, S) {
  return !std::is_same_v<S, WholeGrid> || call.team.mapped != 0 || call.channel == 0;
}

/// Copies at home, unless it is there already.
template <class S>
PEAL_DEVICE void copy_at_home(S scope, void* dst, const void* src, uint64_t bytes) {
  if (dst != src && bytes != 0) p2p::copy<p2p::Direction::kPut>(scope, dst, src, bytes);
}

/// Starts sending `bytes` to `dst` at a member. meet_after() completes it.
template <Reach R, class S>
PEAL_DEVICE Status send(const Call<R>& call, S scope, uint32_t member, void* dst, const void* src,
                        uint64_t bytes) {
  if (bytes == 0) return Status::kOk;
  const auto to = static_cast<int>(member);
  if (call.team.mapped != 0) {
    p2p::copy<p2p::Direction::kPut>(scope, call.at(to, static_cast<std::byte*>(dst)), src, bytes);
    return Status::kOk;
  }
  const detail::Put put{dst, src, bytes, world_pe(call.team, to), detail::Until::kStarted};
  return detail::access_peer(call.ctx, lanes_of(scope), put).status;
}

/// Sends `bytes` bytes to every other member, and copies those for itself: `target(member)` and
/// `source(member)` are theirs.
template <Reach R, class S, class Target, class Source>
PEAL_DEVICE Status send_all(const Call<R>& call, S scope, uint64_t bytes, const Target& target,
                            const Source& source) {
  Status status = Status::kOk;
  for (uint32_t i = 1; i < call.members(); ++i) {
    const uint32_t member = (call.rank() + i) % call.members();
    const Status sent = send(call, scope, member, target(member), source(member), bytes);
    if (status == Status::kOk) status = sent;
  }
  copy_at_home(scope, target(call.rank()), source(call.rank()), bytes);
  return status;
}

/// Member `root`'s `bytes` bytes go to all. Mapped: each fetches them for itself, so that all links
/// are busy. By the NIC: each gets a share of the root, and sends it to the others.
template <Reach R, class S>
PEAL_DEVICE Status broadcast_long(const Call<R>& call, S scope, uint32_t root, std::byte* dst,
                                  const std::byte* src, uint64_t bytes) {
  if (call.team.mapped != 0) {
    if (call.rank() == root) {
      copy_at_home(scope, dst, src, bytes);
    } else {
      p2p::copy<p2p::Direction::kGet>(scope, dst, call.at(static_cast<int>(root), src), bytes);
    }
    return Status::kOk;
  }
  const uint64_t share = (bytes / call.members() + 127) / 128 * 128;
  const auto begin_of = [&](uint32_t member) {
    return share * member < bytes ? share * member : bytes;
  };
  const auto length_of = [&](uint32_t member) {
    return member + 1 == call.members() ? bytes - begin_of(member)
                                        : begin_of(member + 1) - begin_of(member);
  };
  Status status = Status::kOk;
  if (call.rank() == root) {
    for (uint32_t i = 1; i < call.members(); ++i) {
      const uint32_t member = (root + i) % call.members();
      const uint64_t at = begin_of(member);
      const Status sent = send(call, scope, member, dst + at, src + at, length_of(member));
      if (status == Status::kOk) status = sent;
    }
    copy_at_home(scope, dst, src, bytes);
  }
  status = meet_after(call, scope, status);
  if (status != Status::kOk) return status;
  const uint64_t at = begin_of(call.rank());
  for (uint32_t i = 1; i < call.members(); ++i) {
    const uint32_t member = (call.rank() + i) % call.members();
    if (member == root) continue;
    const std::byte* const from = (call.rank() == root ? src : dst) + at;
    const Status sent = send(call, scope, member, dst + at, from, length_of(call.rank()));
    if (status == Status::kOk) status = sent;
  }
  return status;
}

}  // namespace peal::collective
