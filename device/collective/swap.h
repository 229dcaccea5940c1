// SPDX-License-Identifier: Apache-2.0
//
// A long all_to_all in place: what two members have for one another changes places.
#pragma once

#include <cstdint>

#include "device/collective/call.h"
#include "device/collective/staging.h"

namespace peal::collective {

/// Lets [here, here + bytes) and a member's [there, there + bytes) change places.
template <class S>
PEAL_DEVICE void swap_mapped(S scope, std::byte* here, std::byte* there, uint64_t bytes) {
  const uint64_t ends = reinterpret_cast<uint64_t>(here) | reinterpret_cast<uint64_t>(there);
  const uint64_t lines = ends % sizeof(Line) == 0 ? bytes / sizeof(Line) : 0;
  for (uint64_t i = scope.rank(); i < lines; i += scope.size()) {
    const Line mine = load_payload(reinterpret_cast<const Line*>(here) + i);
    const Line theirs = load_line_direct(there + i * sizeof(Line));
    store_line(there + i * sizeof(Line), mine);
    store_payload(reinterpret_cast<Line*>(here) + i, theirs);
  }
  for (uint64_t i = lines * sizeof(Line) + scope.rank(); i < bytes; i += scope.size()) {
    const std::byte mine = load_payload(here + i);
    const std::byte theirs = load_direct(there + i);
    store_payload(there + i, mine);
    store_payload(here + i, theirs);
  }
}

/// Each of two mapped members sees to one half of their blocks.
template <Reach R, class S>
PEAL_DEVICE void swap_all_mapped(const TeamCall<R>& call, S scope, std::byte* data,
                                 uint64_t bytes) {
  const uint64_t half = bytes / 2 / sizeof(Line) * sizeof(Line);
  for (uint32_t i = 1; i < call.members(); ++i) {
    const uint32_t member = call.after(i);
    const bool lower = call.rank() < member;
    const uint64_t from = lower ? 0 : half;
    const uint64_t length = lower ? half : bytes - half;
    std::byte* const theirs = call.at(member, data + call.rank() * bytes + from);
    swap_mapped(scope, data + member * bytes + from, theirs, length);
  }
}

/// By the NIC: all fetch a piece into the workspace, all meet, then it takes its place. Nobody
/// looks there again: the next pieces are elsewhere.
template <Reach R, AnyScope S>
PEAL_DEVICE Status swap_all_staged(const TeamCall<R>& call, S scope, std::byte* data,
                                   uint64_t bytes) {
  const uint64_t piece = piece_bytes(call);
  Status status = Status::kOk;
  for (uint64_t at = 0; at < bytes && status == Status::kOk; at += piece) {
    const uint64_t count = bytes - at < piece ? bytes - at : piece;
    status = fetch_all(call, scope, data + call.rank() * bytes + at, count);
    status = meet_after<false>(call, scope, status);
    if (status != Status::kOk) break;
    for (uint32_t member = 0; member < call.members(); ++member) {
      if (member == call.rank()) continue;
      copy_beside(scope, data + member * bytes + at, staged(call, member), count);
    }
  }
  return status;
}

}  // namespace peal::collective
