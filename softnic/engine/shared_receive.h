// SPDX-License-Identifier: Apache-2.0
//
// Taking entries of a shared receive queue. Its entries form a list in the client's memory:
//
//   next -> entry -> entry -> ... -> last      [next, ...) posted, as many as the doorbell record
//           link | scatter list                counts; the rest is free, the last of it always
//
// Whoever frees an entry links it behind the last one, so entries are taken in the order in which
// they were posted, whatever the order in which they came back.
#pragma once

#include <cstdint>

#include "device/mlx5/layout.h"
#include "softnic/engine/objects.h"
#include "softnic/engine/word.h"

namespace peal::softnic {

/// First 16 bytes of an entry: which one is taken after it.
struct LinkSegment {
  uint8_t reserved0[2];
  uint8_t next[2];  // big-endian index
  uint8_t signature;
  uint8_t reserved1[11];
};
static_assert(sizeof(LinkSegment) == mlx5::kSegmentBytes);

/// What asking for a receive entry comes to.
enum class Claim : uint8_t { kReady, kEmpty, kFailed };

/// Where entry `index` begins.
PEAL_HD std::byte* shared_entry(const SharedReceiveQueue& srq, uint32_t index) {
  return srq.buffer + uint64_t{index} * srq.stride;
}

/// Index of the entry after `index`, as the client's memory says it: not checked.
PEAL_HD uint32_t next_entry(const SharedReceiveQueue& srq, uint32_t index) {
  LinkSegment link = {};  // what a copy that fails leaves
  copy_bytes(&link, shared_entry(srq, index), sizeof(link));
  return uint32_t{link.next[0]} << 8 | link.next[1];
}

/// The queue cannot go on. Those who take from it hear of it when they do.
PEAL_HD Claim fail_shared(Port& port, SharedReceiveQueue& srq, uint64_t& violation) {
  srq.failed = true;
  count_one(violation);
  port.events.raise(AsyncEvent::Kind::kSrqError, srq.srqn);
  return Claim::kFailed;
}

/// Takes note of what was posted. A record that went backwards or posts the last of the list
/// fails the queue.
PEAL_HD Claim observe_shared(Port& port, SharedReceiveQueue& srq) {
  if (srq.failed) return Claim::kFailed;
  if (srq.buffer == nullptr) return Claim::kEmpty;
  const uint32_t record = client_word(&srq.doorbell->receive);
  const auto fresh = static_cast<uint16_t>(record - static_cast<uint32_t>(srq.posted));
  if (srq.posted + fresh - srq.taken >= srq.entries) {
    return fail_shared(port, srq, port.violations.doorbell);
  }
  srq.posted += fresh;
  return srq.posted == srq.taken ? Claim::kEmpty : Claim::kReady;
}

/// Tells, once, that fewer entries wait than the limit.
PEAL_HD void check_limit(Port& port, SharedReceiveQueue& srq) {
  if (srq.limit == 0 || srq.posted - srq.taken >= srq.limit) return;
  if (port.events.raise(AsyncEvent::Kind::kSrqLimit, srq.srqn)) srq.limit = 0;
}

/// Takes the oldest entry: kReady and its index.
PEAL_HD Claim take_shared(Port& port, SharedReceiveQueue& srq, uint32_t& index) {
  const ShortLock turn(srq.turn, srq.users > 1);
  const Claim claim = observe_shared(port, srq);
  if (claim != Claim::kReady) return claim;
  const uint32_t following = next_entry(srq, srq.next);
  if (following >= srq.entries) return fail_shared(port, srq, port.violations.malformed);
  index = srq.next;
  srq.next = following;
  ++srq.taken;
  check_limit(port, srq);
  return Claim::kReady;
}

}  // namespace peal::softnic
