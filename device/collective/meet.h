// SPDX-License-Identifier: Apache-2.0
//
// Meeting the other members of a team: dissemination, as in device/detail/barrier.h, over words
// that carry a signature of the call beside its epoch. Where two members call with other arguments
// every member hears of it in that meeting, and pays nothing for it where all agree.
#pragma once

#include <cstdint>

#include "device/collective/layout.h"
#include "device/detail/barrier.h"
#include "device/team.h"

namespace peal::collective {

/// Signatures that no call has: of an end of a call, and of members that disagree.
inline constexpr uint32_t kArrived = 1;
inline constexpr uint32_t kDisagree = 0;

/// What the members must agree on, in 32 bits, never kArrived or kDisagree: two calls that differ
/// have the same one in one of 2^32 cases.
class Signature {
 public:
  PEAL_DEVICE explicit Signature(uint32_t kind) : hash_(kind + 1) {}
  PEAL_DEVICE Signature& with(uint64_t argument) {
    hash_ = (hash_ ^ argument) * 0x9e3779b97f4a7c15u;
    hash_ ^= hash_ >> 32;
    return *this;
  }
  PEAL_DEVICE uint32_t value() const {
    const auto low = static_cast<uint32_t>(hash_);
    return low <= kArrived ? low + 2 : low;
  }

 private:
  uint64_t hash_;
};

/// Tells a member of a meeting: by a store where all members are mapped, else as barriers do.
template <bool kMapped, Reach R>
PEAL_DEVICE Status tell(const BasicContext<R>& ctx, uint64_t* word, uint64_t value, int pe) {
  if constexpr (!kMapped) return detail::set_flag(ctx, word, value, pe);
  std::byte* const there = detail::heap_of(ctx, pe) + detail::offset_in(ctx.heap, word);
  store_relaxed<Reach::kSystem>(reinterpret_cast<uint64_t*>(there), value);
  return Status::kOk;
}

/// Waits until PE `pe` has told of `epoch`; `theirs` is the signature it told.
template <bool kMapped, Reach R>
PEAL_DEVICE Status hear(const BasicContext<R>& ctx, const uint64_t* word, uint32_t epoch, int pe,
                        uint32_t* theirs) {
  const auto heard = [&](uint64_t seen) {
    *theirs = static_cast<uint32_t>(seen);
    return static_cast<uint32_t>(seen >> 32) == epoch;
  };
  if constexpr (!kMapped) return detail::wait_flag(ctx, word, static_cast<uint32_t>(pe), heard);
  return detail::spin(ctx, [&] { return heard(detail::acquire_word(word)); });
}

/// By one lane, which has fenced what it wants the others to see.
/// The next meeting may be of another block, whose words come on another queue: they are of the
/// other set, and this one is used again when all have seen what is sent here.
template <bool kMapped, Reach R>
PEAL_DEVICE Status meet(const BasicContext<R>& ctx, const Team& team, const Part& part,
                        uint32_t channel, uint32_t signature) {
  Counters& counters = part.counters(channel);
  const uint32_t epoch = load_relaxed<Reach::kGpu>(&counters.meetings) + 1;
  store_relaxed<Reach::kGpu>(&counters.meetings, epoch);
  uint64_t* words = part.arrivals(channel, epoch);
  const uint32_t size = part.members;
  const auto rank = static_cast<uint32_t>(team.rank);
  const auto pe_at = [&](uint32_t member) {
    return world_pe(team, static_cast<int>(member < size ? member : member - size));
  };
  Status first = Status::kOk;
  for (uint32_t distance = 1; distance < size; distance *= kSyncFan) {
    if (distance != 1) fence_direct_stores<Edge::kM15>();  // passes on what was brought
    const uint64_t word = uint64_t{epoch} << 32 | signature;
    for (uint32_t i = 1; i < kSyncFan && i * distance < size; ++i) {
      const Status told = tell<kMapped>(ctx, words + i - 1, word, pe_at(rank + i * distance));
      if (first == Status::kOk) first = told;
    }
    // After a failure the others are still told, so that they need not wait for a deadline.
    for (uint32_t i = 1; first == Status::kOk && i < kSyncFan && i * distance < size; ++i) {
      uint32_t theirs = kDisagree;
      const int pe = pe_at(rank + size - i * distance);
      first = hear<kMapped>(ctx, words + i - 1, epoch, pe, &theirs);
      if (theirs != signature) signature = kDisagree;
    }
    words += kSyncFan - 1;
  }
  if (first != Status::kOk) return first;
  return signature == kDisagree ? Status::kMismatch : Status::kOk;
}

/// The two ends of a call by the NIC, once for all calls: what a meeting posts takes ptxas long.
template <Reach R>
PEAL_DEVICE_COLD Status meet_by_nic(const ContextState* state, Team team, Part part,
                                    uint32_t signature) {
  fence_direct_stores<Edge::kM16Meet>();
  return meet<false>(static_cast<const BasicContext<R>&>(state->fields), team, part, 0, signature);
}
template <Reach R>
PEAL_DEVICE_COLD Status drain_by_nic(const ContextState* state) {
  return detail::drain_all(static_cast<const BasicContext<R>&>(state->fields));
}

}  // namespace peal::collective
