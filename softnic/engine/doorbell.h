// SPDX-License-Identifier: Apache-2.0
//
// How the engine hears of work on a send queue.
//
//   by value    register -> hear() -> Sender::told      the record is looked at some passes later
//   by record   the record is read whenever the queue is looked at
//
// By value is how a ConnectX hears: what is not rung is not heard of, and a WQE must be there
// before the doorbell. A register here is plain memory, which keeps its last value only, so the
// records of a page that was rung are looked at once more: where a card has lost a doorbell it does
// the same.
#pragma once

#include <cstdint>

#include "device/base/endian.h"
#include "softnic/engine/faults.h"
#include "softnic/engine/objects.h"

namespace peal::softnic {

/// The doorbell registers of a page: two, of two halves each, which clients use in turn.
inline constexpr uint32_t kFirstRegister = 0x800;
inline constexpr uint32_t kRegisterStep = 0x100;
inline constexpr uint32_t kRegisters = 4;

/// A queue pair that is rung through a register; without a page there is none to ring.
PEAL_HD bool heard_by_value(const Port& port, const QueuePair& qp) {
  return port.by_value && qp.uar_page != 0;
}

/// What was posted up to `count`, unless as much is known already: values repeat, and come late
/// when the record was looked at meanwhile.
PEAL_HD void tell(Sender& send, uint16_t count) {
  const auto ahead = static_cast<uint16_t>(count - send.told);
  if (ahead <= 1u << 15) send.told = count;
}

PEAL_HD uint16_t record_of(const QueuePair& qp) {
  return static_cast<uint16_t>(client_word(&qp.doorbell->send));
}

/// Takes a value that was stored to a register of page `page`. The first words of a WQE, which
/// libmlx5 stores, name that WQE and not what follows it: their client has written the record
/// before, and it is read. Another page's queue pair does not hear.
PEAL_HD void hear(const Port& port, uint32_t page, uint64_t value) {
  const uint32_t index = swap_bytes(static_cast<uint32_t>(value)) >> 8;
  const uint32_t qpn_ds = swap_bytes(static_cast<uint32_t>(value >> 32));
  QueuePair* const qp = find_qp(port, qpn_ds >> 8);
  if (qp == nullptr || qp->uar_page != page || qp->send_buffer == nullptr) return;
  const bool of_wqe = (qpn_ds & 0xff) != 0;
  tell(qp->send, of_wqe ? record_of(*qp) : static_cast<uint16_t>(index));
}

/// Takes what was stored to the registers of a page; true when there was something.
PEAL_HD bool take_values(const Port& port, uint32_t page) {
  bool rung = false;
  for (uint32_t i = 0; i < kRegisters; ++i) {
    auto& word = word_at<uint64_t>(port.pages[page].memory + kFirstRegister + i * kRegisterStep);
    if (Word<uint64_t>(word).load(kRelaxed) == 0) continue;
    // In one step, so that a value that comes now is taken by the next pass, if it is the same too.
    hear(port, page, Word<uint64_t>(word).exchange(0, kAcquire));
    rung = true;
  }
  return rung;
}

/// One pass over all registers; true while something is to come of it. Between a ring and the look
/// at the records lie 1 to 8 passes, which depend on nothing but their number.
PEAL_HD bool hear_registers(const Port& port) {
  bool worked = false;
  for (uint32_t id = 1; id < port.page_count; ++id) {
    DoorbellPage& page = port.pages[id];
    if (!page.exists || page.memory == nullptr) continue;
    const bool rung = take_values(port, id);
    if (rung && page.look_in == 0) {
      page.look_in = 1 + static_cast<uint32_t>(scatter_bits(uint64_t{id} << 32 | page.looks) % 8);
    } else if (page.look_in != 0 && --page.look_in == 0) {
      ++page.looks;
    }
    worked |= page.look_in != 0;
  }
  return worked;
}

/// A queue pair that begins afresh on a page: the looks there are for what was rung before.
PEAL_HD void skip_looks(const Port& port, QueuePair& qp) {
  if (heard_by_value(port, qp)) qp.send.looked = port.pages[qp.uar_page].looks;
}

/// How many blocks the client says are posted, in 16 bits.
PEAL_HD uint16_t told(const Port& port, QueuePair& qp) {
  if (!heard_by_value(port, qp)) return record_of(qp);
  const uint32_t looks = port.pages[qp.uar_page].looks;
  if (qp.send.looked != looks) {
    qp.send.looked = looks;
    tell(qp.send, record_of(qp));
  }
  return qp.send.told;
}

}  // namespace peal::softnic
