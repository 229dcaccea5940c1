// SPDX-License-Identifier: Apache-2.0
//
// A plan of what goes wrong on the way to mapped peers, as kernels read it, and what they have
// counted. Plain data that the host fills in (host/contexts/link_plan.h); docs/faults.md has the
// grammar, meet_fault.h what a lane makes of it.
#pragma once

#include <cstdint>

namespace peal {

enum class LinkFault : uint32_t {
  kStall,       // the operation waits before it loads or stores
  kLateSignal,  // the signal's word is stored late, behind its data
  kLinkDown,    // operations to the PE answer kPeerLost
  kKill,        // the process of this PE is killed
};

/// One line of a plan.
struct LinkRule {
  static constexpr uint64_t kAlways = uint64_t{1} << 32;  // chance of a rule without percent=

  LinkFault fault;
  int32_t pe;       // to whom; -1: any other PE
  uint64_t at;      // operation to that PE (kLateSignal: signal), counted from 1; 0: each
  uint64_t chance;  // of 2^32
  uint64_t ns;      // how long; 0: for good
};

/// What the kernels of this PE have done towards one other.
struct LinkCount {
  uint64_t operations;
  uint64_t signals;
  uint64_t down_until;  // device clock
};

/// The first rule that fits wins.
struct LinkFaults {
  static constexpr uint32_t kMaxRules = 16;

  uint64_t seed;
  LinkCount* links;  // by PE
  uint32_t count;
  uint32_t killed;  // 1: a lane has met kKill; the host does it
  LinkRule rule[kMaxRules];
};

}  // namespace peal
