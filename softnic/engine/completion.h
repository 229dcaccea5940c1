// SPDX-License-Identifier: Apache-2.0
//
// Completion queue entries. Seven words are written plainly, the eighth, which holds owner bit,
// opcode and WQE counter, is written last with release: whoever sees it sees everything the
// completed request did.
//
//   CQE n lies at slot n mod entries (slot 0 when collapsed), owner bit = lap parity
#pragma once

#include <cstdint>

#include "device/mlx5/layout.h"
#include "softnic/engine/faults.h"
#include "softnic/engine/objects.h"
#include "softnic/engine/word.h"

namespace peal::softnic {

inline constexpr uint32_t kSolicitedCqe = 2;  // op_own
inline constexpr size_t kCqeSourceLidByte = 22;
inline constexpr size_t kCqeSourceByte = 24;  // Completed::source

/// True when the consumer has not made room. Only asked of queues that check overruns.
PEAL_HD bool cq_full(const CompletionQueue& cq) {
  if (cq.doorbell == nullptr) return false;
  const uint32_t consumed = client_word(cq.doorbell) & 0xffffff;
  const uint32_t waiting = (static_cast<uint32_t>(cq.produced) - consumed) & 0xffffff;
  return waiting >= 1u << cq.log_entries;
}

/// Where CQE number `entry` of the queue goes, and what else it says.
struct CqePlace {
  std::byte* at;
  uint32_t owner;
  uint32_t user_index;
  uint32_t qpn;
};
PEAL_HD CqePlace place_of(const CompletionQueue& cq, uint64_t entry, const QueuePair& qp) {
  const uint64_t slot = cq.collapsed ? 0 : entry & ((1ull << cq.log_entries) - 1);
  return {.at = cq.buffer + slot * cq.cqe_bytes + (cq.cqe_bytes - sizeof(mlx5::Cqe)),
          .owner = static_cast<uint32_t>(entry >> cq.log_entries) & 1,
          .user_index = qp.user_index,
          .qpn = qp.qpn};
}

/// The eight words of a CQE as they lie in memory; the last tells that it is there.
struct CqeWords {
  uint64_t word[8];
};
PEAL_HD CqeWords cqe_words(const CqePlace& place, const Completed& done, uint64_t now) {
  const bool failed = done.syndrome != mlx5::Syndrome::kNone;
  const auto pair = [](uint32_t first, uint32_t second) {  // two big-endian words in memory order
    return uint64_t{Be32(first).raw} | uint64_t{Be32(second).raw} << 32;
  };
  const uint32_t tag = static_cast<uint32_t>(done.opcode) << 24 | place.qpn;
  const uint32_t last = uint32_t{done.counter} << 16 | static_cast<uint32_t>(done.kind) << 4 |
                        (done.solicited ? kSolicitedCqe : 0) | place.owner;
  return {{0, 0, uint64_t{Be16(done.source_lid).raw} << 48, Be32(done.source).raw,
           uint64_t{Be32(place.user_index & 0xffffff).raw} | uint64_t{done.immediate} << 32,
           pair(0, done.bytes),
           failed ? pair(0, static_cast<uint32_t>(done.syndrome)) : Be64(now).raw,
           pair(tag, last)}};
}

/// Writes the 64 bytes of a CQE, the last word last: to a GPU's memory by a copy of its own, since
/// the bytes of one copy come in any order. This rests on copies of one stream being executed in
/// order. That a kernel which runs meanwhile sees them in that order is not in CUDA's documents;
/// NCCL's GDAKI kernels on two H200s polled such CQEs and found every byte
/// (tests/gpu/clients/nccl_gin.sh).
PEAL_HD void write_cqe(const CqePlace& place, const Completed& done, uint64_t now) {
  const CqeWords words = cqe_words(place, done, now);
  if (in_gpu(place.at)) {
    copy_by_gpu(place.at, words.word, 56, true);
    return copy_by_gpu(place.at + 56, words.word + 7, 8);
  }
  for (uint32_t i = 0; i < 7; ++i) store_relaxed<uint64_t>(place.at + i * 8, words.word[i]);
  store<uint64_t>(place.at + 56, words.word[7]);
}

/// The event of an armed queue.
PEAL_HD void raise_completion(Port& port, CompletionQueue& cq) {
  cq.armed = Arm::kNothing;
  cq.told = cq.produced;
  if (cq.rung) {
    cq.rung = false;
    cq.spent = cq.due = true;
  }
  store_relaxed<uint32_t>(&port.events.fired, 1);
}

/// An armed queue got an entry: its event is due, once, unless only a solicited entry or an error
/// counts. Queues that kernels poll are never armed.
PEAL_HD void fire(Port& port, CompletionQueue& cq, const Completed& done) {
  const bool failed = done.syndrome != mlx5::Syndrome::kNone;
  if (cq.armed == Arm::kSolicitedOnly && !done.solicited && !failed) return;
  raise_completion(port, cq);
}

/// Reports a completion. One that does not fit marks the queue overrun: it is dropped, and so is
/// every later one, and an event tells.
PEAL_HD void complete(Port& port, const QueuePair& qp, uint32_t cqn, const Completed& done,
                      uint64_t now) {
  CompletionQueue* cq = find_cq(port, cqn);
  if (cq == nullptr) return;
  const ShortLock turn(cq->turn, cq->writers > 1);
  if (cq->overrun) return;
  if (!cq->ignore_overrun && cq_full(*cq)) {
    cq->overrun = true;
    count_one(port.violations.cq_overrun);
    port.events.raise(AsyncEvent::Kind::kCqError, cqn);
    return;
  }
  const uint64_t entry = cq->produced;
  // Counted first: whoever has seen the CQE may ask cq_produced().
  store_relaxed<uint64_t>(&cq->produced, entry + 1);
  write_cqe(place_of(*cq, entry, qp), done, now);
  if (cq->armed != Arm::kNothing) fire(port, *cq, done);
}

/// Reports what had to wait and is due.
PEAL_HD void release_late(Port& port, uint64_t now) {
  Faults& faults = *port.faults;
  uint32_t kept = 0;
  for (uint32_t i = 0; i < faults.late_count; ++i) {
    const LateCqe late = faults.late[i];
    const QueuePair* qp = find_qp(port, late.qpn);
    if (late.due > now) {
      faults.late[kept++] = late;
    } else if (qp != nullptr) {
      complete(port, *qp, qp->send_cq, late.done, now);
    }
  }
  faults.late_count = kept;
}

/// What the plan of a port does at this moment; false when its NIC does nothing any more. A port
/// whose Faults::killed this sets is to have its process killed by the caller.
PEAL_HD bool attend_faults(Port& port, uint64_t now) {
  Faults& faults = *port.faults;
  faults.begin_timed(now);
  if (faults.killed || faults.stopped) return false;
  if (const bool down = port_down(port, now); down != faults.down) {
    faults.down = down;
    using Kind = AsyncEvent::Kind;
    port.events.raise(down ? Kind::kPortDown : Kind::kPortUp, 1);
  }
  release_late(port, now);
  faults.data.land(port, now);
  return true;
}

/// Reports something of the send queue, now or when a fault lets it.
PEAL_HD void report_send(Port& port, QueuePair& qp, const Completed& done, uint64_t now) {
  if (port.faults != nullptr && defers(*port.faults, qp, done, now)) return;
  if (port.faults != nullptr && port.faults->full()) {  // all of them come, to stay in order
    port.faults->hurry();
    release_late(port, now);
  }
  complete(port, qp, qp.send_cq, done, now);
}

/// Reports the WQE at `index` of the send queue as done, if its completion mode wants that.
PEAL_HD void complete_send(Port& port, QueuePair& qp, const PendingWqe& done, uint64_t now) {
  if (done.completion != mlx5::Completion::kAlways &&
      done.completion != mlx5::Completion::kAlwaysWithEvent) {
    return;
  }
  report_send(port, qp,
              {.kind = mlx5::CqeOpcode::kRequester,
               .opcode = done.opcode,
               .counter = static_cast<uint16_t>(done.index),
               .bytes = done.bytes},
              now);
}

PEAL_HD void complete_send_error(Port& port, QueuePair& qp, uint64_t index, mlx5::Opcode opcode,
                                 mlx5::Syndrome syndrome, uint64_t now) {
  report_send(port, qp,
              {.kind = mlx5::CqeOpcode::kRequesterError,
               .syndrome = syndrome,
               .opcode = opcode,
               .counter = static_cast<uint16_t>(index)},
              now);
}

}  // namespace peal::softnic
