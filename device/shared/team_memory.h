// SPDX-License-Identifier: Apache-2.0
//
// A team's memory, which lies at the same offset at every member. Each context that may make
// collective calls of the team has a part:
//
//   [ channel 0 | channel 1 | ... | workspace | grid workspace ]
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
// The workspace is what short messages pass through: a ring of lines for each member where all are
// mapped (exchange.h), else two sets of blocks, used in turn as the arrivals are (carry.h). For
// what a NIC fetches it is one piece (staging.h). Rings of their own are for calls from the host: a
// grid has the lanes for longer messages than one block does.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/base/access.h"
#include "device/base/edge.h"
#include "device/shared/context_fields.h"
#include "device/team.h"

namespace peal::collective {

inline constexpr uint32_t kAlignment = 128;
inline constexpr uint32_t kLine = sizeof(Line);

/// Where the rings of short messages are: the line that the next one begins at, and how many before
/// it some member may not have read. 0 where they begin anew.
struct RingPlace {
  uint32_t line;
  uint32_t unheard;

  PEAL_HD static RingPlace of(uint64_t word) {
    return {static_cast<uint32_t>(word), static_cast<uint32_t>(word >> 32)};
  }
  PEAL_HD uint64_t word() const { return uint64_t{unheard} << 32 | line; }
};

/// What a member counts for itself; nobody else looks.
struct ChannelCounters {
  uint64_t ring;            // RingPlace, in one piece
  uint64_t grid_ring;       // that of calls from the host
  uint32_t meetings;        // made
  uint32_t exchanges;       // made
  uint32_t grid_exchanges;  // made by calls from the host
  uint32_t arrived;         // blocks of a grid that are done with the call under way, and
  uint32_t done;            // calls of grids that all blocks are done with (of channel 0)
  uint32_t failed;          // BlockFailure of a block whose part of that call failed
  uint32_t outcome;         // of the last call of a grid
  uint32_t refused;         // a Status that the host wrote: no call is made any more
  uint32_t disagreed;       // the last exchange in which members made different calls, twice its
                            // number, and 1 where all know; 0: none
  uint32_t grid_disagreed;  // of those from the host
};
static_assert(sizeof(ChannelCounters) <= 64);

/// Why a block's part of a grid's call failed, as the other blocks read it: the greatest is kept,
/// and kNeverBegan outranks every Status.
struct BlockFailure {
  uint32_t word;

  /// `began`: the members had met, and agreed, before data moved.
  PEAL_HD static BlockFailure of(Status status, bool began) {
    return {static_cast<uint32_t>(status) | (began ? 0 : kNeverBegan)};
  }
  PEAL_HD Status status() const { return static_cast<Status>(word & ~kNeverBegan); }
  PEAL_HD bool never_began() const { return (word & kNeverBegan) != 0; }

 private:
  static constexpr uint32_t kNeverBegan = 1u << 16;
};

/// Words of one set of arrivals.
PEAL_HD constexpr uint32_t arrival_words(uint32_t members) {
  return sync_rounds(static_cast<int>(members)) * (kSyncFan - 1);
}

PEAL_HD constexpr uint32_t channel_bytes(uint32_t members) {
  return (64 + 2 * arrival_words(members) * 8 + kAlignment - 1) / kAlignment * kAlignment;
}

/// Bytes of the part of one context; `workspaces`: both.
PEAL_HD constexpr uint64_t part_bytes(uint32_t members, uint32_t channels, uint64_t workspaces) {
  return uint64_t{channel_bytes(members)} * channels + workspaces;
}

/// The longest message that goes through a workspace where all members are mapped: of two in a row
/// the second needs no meeting.
PEAL_HD constexpr uint64_t brief_bytes(uint32_t workspace, uint32_t members) {
  return workspace / members / kLine / 2 * sizeof(uint64_t);
}

/// The rings of a workspace, one for each sender, and where they are.
struct LineRings {
  std::byte* base;
  uint32_t lines;  // of one
  uint64_t* place;
  uint32_t* exchanges;
  uint32_t* disagreed;

  /// Where member `from` writes line `index` of its ring.
  PEAL_HD std::byte* line(uint32_t from, uint32_t index) const {
    return base + (uint64_t{from} * lines + index) * kLine;
  }
};

/// One context's part of a team's memory, as a call finds it.
struct Part {
  std::byte* base;
  uint32_t members;
  uint32_t channels;
  uint32_t workspace;
  uint32_t grid_workspace;

  /// That of the team's context number `context`. Number `Team::contexts` begins behind them all.
  PEAL_HD static Part of(const Team& team, uint32_t context) {
    const auto members = static_cast<uint32_t>(team.size);
    const uint64_t workspaces = uint64_t{team.workspace} + team.grid_workspace;
    const uint64_t bytes = part_bytes(members, team.channels, workspaces);
    return {team.memory + context * bytes, members, team.channels, team.workspace,
            team.grid_workspace};
  }

  PEAL_HD ChannelCounters& counters(uint32_t channel) const {
    return *reinterpret_cast<ChannelCounters*>(base + channel * channel_bytes(members));
  }
  PEAL_HD uint64_t* arrivals(uint32_t channel, uint32_t epoch) const {
    auto* const words = reinterpret_cast<uint64_t*>(base + channel * channel_bytes(members) + 64);
    return words + (epoch % 2) * arrival_words(members);
  }
  PEAL_HD std::byte* space() const { return base + uint64_t{channel_bytes(members)} * channels; }
  PEAL_HD LineRings rings() const {
    ChannelCounters& mine = counters(0);
    return {space(), workspace / members / kLine, &mine.ring, &mine.exchanges, &mine.disagreed};
  }
  PEAL_HD LineRings grid_rings() const {
    ChannelCounters& mine = counters(0);
    return {space() + workspace, grid_workspace / members / kLine, &mine.grid_ring,
            &mine.grid_exchanges, &mine.grid_disagreed};
  }
  /// The set of blocks that meeting `epoch` carries, and its bytes.
  PEAL_HD uint32_t set_bytes() const { return workspace / (2 * kLine) * kLine; }
  PEAL_HD std::byte* carried(uint32_t epoch) const {
    return space() + (weakened(Edge::kTakenBeforeReuse) ? 0 : epoch % 2) * set_bytes();
  }
};

}  // namespace peal::collective
