// SPDX-License-Identifier: Apache-2.0
//
// A fault plan: which of the things a NIC meets go wrong, and how. docs/faults.md has the grammar.
//
//   seed=7
//   qp=0x42 wqe=5 fault=syndrome:0x13      the 5th WQE of that queue pair fails with 0x13
//   doorbell=3 fault=drop                  the 3rd doorbell of every queue pair goes unheard
//
// Plain data: the engine reads it as it is. Only the parser allocates, when it throws.
#pragma once

#include <cstdint>
#include <string_view>

namespace peal::softnic {

enum class FaultKind : uint8_t {
  kNone,
  kDropDoorbell,       // unheard until the queue's next one
  kDelayDoorbell,      // heard late
  kDuplicateDoorbell,  // heard twice
  kReorderDoorbell,    // heard behind the NIC's next one
  kStall,              // the queue stands still before the WQE
  kLoseAck,            // the peer acts, its answers are lost
  kLoseRequest,        // the peer never hears of it
  kNotReady,           // the peer answers "receiver not ready"
  kSyndrome,           // fails with a syndrome, not executed
  kFlushStorm,         // the queue fails without a cause, every WQE of it is reported as flushed
  kLateCqe,            // executed, its CQE comes late
  kLateData,           // what it fetched comes behind its CQE
  kPortDown,           // nothing goes out, nothing comes in
  kNicStop,            // the NIC does nothing any more
  kKill,               // the process of the NIC is killed
};

/// One line of a plan.
struct FaultRule {
  enum class Trigger : uint8_t { kDoorbell, kWqe, kTime };
  static constexpr uint64_t kAlways = 1ull << 32;  // chance of a rule without percent=

  FaultKind kind = FaultKind::kNone;
  Trigger trigger = Trigger::kWqe;
  uint8_t syndrome = 0;
  uint32_t qpn = 0;           // 0: any
  uint64_t at = 0;            // doorbell or WQE of a queue, counted from 1; 0: each
  uint64_t after_ns = 0;      // kTime: since the plan began
  uint64_t chance = kAlways;  // of 2^32
  uint64_t ns = 0;            // how long; 0: for good
  uint32_t times = 0;         // how many tries; 0: all
};

struct FaultPlan {
  static constexpr uint32_t kMaxRules = 64;

  uint64_t seed = 0;
  uint32_t count = 0;
  FaultRule rule[kMaxRules] = {};
};

/// Reads a plan. Faults are separated by line ends or ';', '#' starts a comment. Throws
/// std::invalid_argument naming line, word, and what is allowed there; takes any bytes.
FaultPlan parse_fault_plan(std::string_view text);

}  // namespace peal::softnic
