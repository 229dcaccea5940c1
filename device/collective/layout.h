// SPDX-License-Identifier: Apache-2.0
//
// A team's memory, which lies at the same offset at every member. Each context that may make
// collective calls of the team has a part:
//
//   [ channel 0 | channel 1 | ... | workspace ]
//
// A channel is what one block meets the blocks of other members by: channel 0 for calls by a
// thread, warp or block, channel b for block b of a grid:
//
//   [ counters of this PE | arrivals, even | arrivals, odd ]
//
// Arrivals are words that other members write: epoch and signature of the call (meet.h). Two sets
// of them, used in turn, so that a member that is one ahead changes nothing that is still looked
// at.
//
// The workspace is [2][members][slot] for short messages (exchange.h), again in turn, or one piece
// for what a NIC fetches (staging.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/detail/tables.h"
#include "device/team.h"

namespace peal::collective {

inline constexpr uint32_t kAlignment = 128;

/// What a member counts for itself; nobody else looks.
struct Counters {
  uint32_t meetings;   // made
  uint32_t exchanges;  // made
  uint32_t heard;      // the newest exchange that every member is known to have begun
  uint32_t arrived;    // blocks of a grid that are done with the call under way, and
  uint32_t done;       // calls of grids that all blocks are done with (of channel 0)
  uint32_t failed;     // Status of a block whose part of that call failed
  uint32_t outcome;    // of the last call of a grid
  uint32_t refused;    // a Status that the host wrote: no call is made any more
};

/// Words of one set of arrivals.
PEAL_HD constexpr uint32_t arrival_words(uint32_t members) {
  return sync_rounds(static_cast<int>(members)) * (kSyncFan - 1);
}

PEAL_HD constexpr uint32_t channel_bytes(uint32_t members) {
  return (64 + 2 * arrival_words(members) * 8 + kAlignment - 1) / kAlignment * kAlignment;
}

/// Bytes of the part of one context.
PEAL_HD constexpr uint64_t part_bytes(uint32_t members, uint32_t channels, uint32_t workspace) {
  return uint64_t{channel_bytes(members)} * channels + workspace;
}

/// One context's part of a team's memory, as a call finds it.
struct Part {
  std::byte* base;
  uint32_t members;
  uint32_t channels;
  uint32_t workspace;

  PEAL_HD Counters& counters(uint32_t channel) const {
    return *reinterpret_cast<Counters*>(base + channel * channel_bytes(members));
  }
  PEAL_HD uint64_t* arrivals(uint32_t channel, uint32_t epoch) const {
    auto* const words = reinterpret_cast<uint64_t*>(base + channel * channel_bytes(members) + 64);
    return words + (epoch % 2) * arrival_words(members);
  }
  PEAL_HD std::byte* space() const { return base + uint64_t{channel_bytes(members)} * channels; }
  /// Where member `from` writes of exchange `epoch`.
  PEAL_HD uint32_t slot_bytes() const { return workspace / (2 * members) / 16 * 16; }
  PEAL_HD std::byte* slot(uint32_t epoch, uint32_t from) const {
    return space() + uint64_t{(epoch % 2) * members + from} * slot_bytes();
  }
};

}  // namespace peal::collective
