// SPDX-License-Identifier: Apache-2.0
//
// A fault plan at work: which of its faults meet this doorbell, this WQE, this moment, and what
// they have in hand.
//
//   observe_doorbell -> times_heard      step -> fault_of      send, take -> loses
//   complete_send -> defers              driver -> attend_faults (completion.h) -> begin_timed
//
// Where there is no plan (Port::faults) each hook is one untaken branch.
// Counts are kept by queue, so what a plan does depends on no timing but the client's own.
#pragma once

#include <cstdint>

#include "softnic/engine/keys.h"
#include "softnic/engine/objects.h"
#include "softnic/engine/word.h"

namespace peal::softnic {

/// Fetched bytes that come to memory behind their completion (fault=late_data), as over a bus that
/// keeps no order between what a NIC writes to two places, or to a GPU that shows no order.
///
///   answer of a READ -> hold -> CQE ... -> land: N ms later, or as soon as the NIC reads memory
///   for a DUMP, a WRITE, a SEND or a peer's READ or atomic: a read passes no write before it
///
/// Used under the engine's lock.
class LateData {
 public:
  /// Takes bytes for `address` of a key; false if there is no room for them.
  PEAL_HD bool hold(uint32_t lkey, uint64_t address, const std::byte* from, uint64_t bytes,
                    uint64_t due) {
    if (count_ == kMost || bytes > sizeof bytes_ - used_) return false;
    held_[count_++] = {lkey, used_, address, bytes, due};
    copy_bytes(bytes_ + used_, from, bytes);
    used_ += static_cast<uint32_t>(bytes);
    return true;
  }

  /// Stores what is due at `now`, in the order in which it came. What is for a key that has gone is
  /// dropped: its memory may have gone too.
  PEAL_HD void land(const Port& port, uint64_t now) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < count_; ++i) {
      const Held one = held_[i];
      if (one.due > now) {
        held_[kept++] = one;
        continue;
      }
      const Key* const key = find_key(port, one.lkey);
      const std::byte* from = bytes_ + one.at;
      const auto store = [&from](const MemoryRun& run) {
        place(run.memory, from, run.bytes);
        from += run.bytes;
      };
      if (key != nullptr) each_run(port, *key, {one.address, one.bytes, 0}, 0, one.bytes, store);
    }
    count_ = kept;
    if (count_ == 0) used_ = 0;
  }

  /// All of it is due.
  PEAL_HD void hurry() {
    for (uint32_t i = 0; i < count_; ++i) held_[i].due = 0;
  }

 private:
  static constexpr uint32_t kMost = 64;

  struct Held {
    uint32_t lkey;
    uint32_t at;  // in bytes_
    uint64_t address;
    uint64_t bytes;
    uint64_t due;
  };

  uint32_t count_ = 0;
  uint32_t used_ = 0;
  Held held_[kMost] = {};
  alignas(64) std::byte bytes_[16 << 10] = {};
};

/// A completion that waits for its time.
struct LateCqe {
  uint64_t due;
  uint32_t qpn;
  Completed done;
};

/// The plan of one NIC and what it has done so far. Changed by the engine, or while it is paused.
struct Faults {
  static constexpr uint32_t kMaxLate = 1024;

  FaultPlan plan;
  uint64_t number = 0;      // of the plan; counts from 1
  uint64_t began = 0;       // when the engine first saw it; 0 = not yet
  uint64_t timed = 0;       // bit i: rule i, which waits for a time, has acted
  uint64_t doorbells = 0;   // heard, of all queues
  uint64_t down_until = 0;  // the port is down
  bool down = false;        // and has said so
  bool stopped = false;
  bool killed = false;
  uint32_t late_count = 0;
  LateCqe late[kMaxLate];
  LateData data;

  /// Replaces the plan. Everything the old one held up goes on, but a dropped doorbell.
  void begin(const FaultPlan& fresh) {
    plan = fresh;
    ++number;
    began = timed = down_until = 0;
    stopped = killed = false;
    hurry();
  }

  /// Everything that waits is due.
  PEAL_HD void hurry() {
    data.hurry();
    for (uint32_t i = 0; i < late_count; ++i) late[i].due = 0;
  }

  /// No other completion can wait.
  PEAL_HD bool full() const { return late_count == kMaxLate; }

  /// The queue pair goes away, or starts anew.
  void forget(uint32_t qpn) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < late_count; ++i) {
      if (late[i].qpn != qpn) late[kept++] = late[i];
    }
    late_count = kept;
  }

  /// Faults that wait for a time and not for a WQE.
  PEAL_HD void begin_timed(uint64_t now) {
    if (began == 0) began = now;
    for (uint32_t i = 0; i < plan.count; ++i) {
      const FaultRule& rule = plan.rule[i];
      if (rule.trigger != FaultRule::Trigger::kTime || (timed >> i & 1) != 0) continue;
      if (now - began < rule.after_ns) continue;
      timed |= uint64_t{1} << i;
      if (rule.kind == FaultKind::kPortDown) down_until = rule.ns == 0 ? ~0ull : now + rule.ns;
      if (rule.kind == FaultKind::kNicStop) stopped = true;
      if (rule.kind == FaultKind::kKill) killed = true;
    }
  }
};

/// A number that looks random and depends on its input alone (splitmix64).
PEAL_HD uint64_t scatter_bits(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
  x = (x ^ x >> 27) * 0x94d049bb133111eb;
  return x ^ x >> 31;
}

/// The first rule for event `count` of a queue, counted from 1; 0 when there is none.
PEAL_HD uint32_t rule_for(const FaultPlan& plan, FaultRule::Trigger trigger, uint32_t qpn,
                          uint64_t count) {
  for (uint32_t i = 0; i < plan.count; ++i) {
    const FaultRule& rule = plan.rule[i];
    if (rule.trigger != trigger || (rule.qpn != 0 && rule.qpn != qpn)) continue;
    if (rule.at != 0 && rule.at != count) continue;
    const uint64_t event = scatter_bits(uint64_t{i} << 56 ^ uint64_t{qpn} << 32 ^ count);
    if (scatter_bits(plan.seed ^ event) >> 32 < rule.chance) return i + 1;
  }
  return 0;
}

/// What the plan has in hand for a queue pair, begun anew for a new plan.
PEAL_HD QueueFaults& faults_of(const Faults& faults, QueuePair& qp) {
  QueueFaults& mine = qp.faults;
  if (mine.plan == faults.number) return mine;
  Sender& send = qp.send;
  if (mine.plan == 0 && send.drained()) {
    // From here on also what lies in reach goes over the wire, whose two ends must agree.
    send.acked_psn = (send.psn - 1) & kPsnMask;
    send.dc_epoch = 0;
  }
  const QueueFaults old = mine;
  mine = {};
  mine.plan = faults.number;
  mine.counted_until = send.next;
  mine.storms = old.storms;
  if (old.held_as == FaultKind::kDropDoorbell) {
    mine.held_as = old.held_as;
    mine.held = old.held;
  }
  return mine;
}

/// How often a doorbell that the engine has not acted on is heard: not (yet), once, or twice.
PEAL_HD uint32_t times_heard(Faults& faults, QueuePair& qp, uint16_t counter, uint64_t now) {
  QueueFaults& mine = faults_of(faults, qp);
  if (mine.held_as != FaultKind::kNone && mine.held == counter) {
    if (mine.held_as == FaultKind::kDropDoorbell) return 0;
    const bool overtaken =
        mine.held_as == FaultKind::kReorderDoorbell && faults.doorbells > mine.held_behind;
    if (now < mine.held_until && !overtaken) return 0;
    mine.held_as = FaultKind::kNone;
    ++faults.doorbells;
    return 1;
  }
  mine.held_as = FaultKind::kNone;  // a later one says all that it said
  const uint32_t which =
      rule_for(faults.plan, FaultRule::Trigger::kDoorbell, qp.qpn, ++mine.doorbells);
  const FaultRule rule = which == 0 ? FaultRule() : faults.plan.rule[which - 1];
  switch (rule.kind) {
    case FaultKind::kDropDoorbell:
    case FaultKind::kDelayDoorbell:
    case FaultKind::kReorderDoorbell:
      mine.held_as = rule.kind;
      mine.held = counter;
      mine.held_until = now + rule.ns;
      mine.held_behind = faults.doorbells;
      return 0;
    default:
      ++faults.doorbells;
      return rule.kind == FaultKind::kDuplicateDoorbell ? 2 : 1;
  }
}

/// The fault of the decoded WQE at `next`, or null. Each WQE is counted once, however often it is
/// started.
PEAL_HD const FaultRule* fault_of(const Faults& faults, QueuePair& qp) {
  QueueFaults& mine = faults_of(faults, qp);
  const Sender& send = qp.send;
  const uint64_t end = send.next + send.request.blocks;
  if (send.next >= mine.counted_until) {
    mine.counted_until = end;
    mine.rule = rule_for(faults.plan, FaultRule::Trigger::kWqe, qp.qpn, ++mine.wqes);
    mine.tries = 0;
    mine.until = 0;
  }
  return mine.rule == 0 || end != mine.counted_until ? nullptr : &faults.plan.rule[mine.rule - 1];
}

/// True when a packet of the queue pair is lost: a request, or the answer to one.
PEAL_HD bool loses(const Faults& faults, const QueuePair& qp, FaultKind kind, uint32_t psn) {
  const QueueFaults& mine = qp.faults;
  return mine.plan == faults.number && mine.loses == kind && psn_distance(psn, mine.lost_psn) >= 0;
}

/// Puts a send completion aside if it, or one before it on its queue, is to come late.
PEAL_HD bool defers(Faults& faults, QueuePair& qp, const Completed& done, uint64_t now) {
  QueueFaults& mine = qp.faults;
  uint64_t due = 0;
  if (mine.plan == faults.number && mine.late &&
      static_cast<int16_t>(done.counter - mine.late_counter) >= 0) {
    mine.late = false;
    due = now + mine.late_ns;
  }
  for (uint32_t i = 0; i < faults.late_count; ++i) {
    if (faults.late[i].qpn == qp.qpn && faults.late[i].due > due) due = faults.late[i].due;
  }
  if (due == 0 || faults.full()) return false;
  faults.late[faults.late_count++] = {due, qp.qpn, done};
  return true;
}

/// What was fetched and is under way to memory is there: the NIC is about to read.
PEAL_HD void land_fetched(Port& port) {
  if (port.faults != nullptr) port.faults->data.land(port, ~0ull);
}

/// Nothing goes out of the port or comes in.
PEAL_HD bool port_down(const Port& port, uint64_t now) {
  return port.faults != nullptr && now < port.faults->down_until;
}

}  // namespace peal::softnic
