// SPDX-License-Identifier: Apache-2.0
//
// The NIC, one step at a time. A driver (CPU thread, GPU kernel, simulator) owns the Port and the
// clock and calls advance() for the queue pairs it thinks are busy; packets that arrive go to
// serve(), answers to take_answer().
//
//   advance(port, wire, qp, now)   one queue pair's send side
//   take_answer(...)               an answer from the wire to one of our requests
//
// State is in plain structs, time is a parameter, the wire is a template parameter: nothing here
// waits, allocates, locks or throws.
#pragma once

#include <cstdint>

#include "softnic/engine/answers.h"
#include "softnic/engine/objects.h"
#include "softnic/engine/requester.h"

namespace peal::softnic {

/// Advances one queue pair by at most `budget` WQEs. True when anything happened.
template <PacketWire W>
PEAL_HD bool advance(Port& port, W& wire, QueuePair& qp, uint64_t now, uint32_t budget) {
  return Requester<W>(port, wire, now).advance(qp, budget);
}

/// Hands an answer to the queue pair it names; answers nobody waits for are ignored.
PEAL_HD void take_answer(Port& port, const Packet& packet, const Payload& payload, uint64_t now) {
  QueuePair* qp = find_qp(port, packet.destination);
  if (qp != nullptr) Answers(port, now).take(*qp, packet, payload);
}

/// True when a queue pair waits for something other than a new doorbell.
PEAL_HD bool unsettled(const QueuePair& qp) {
  const Sender& send = qp.send;
  if (qp.state == QpState::kError) return send.retired != send.posted || owes_last_entry(qp);
  return qp.state == QpState::kReadyToSend && (!send.drained() || send.next != send.posted);
}

/// True when the client has posted something the engine has not seen.
PEAL_HD bool rung(const Port& port, QueuePair& qp) {
  const bool failed = qp.state == QpState::kError;
  if (qp.doorbell == nullptr || (!failed && qp.state != QpState::kReadyToSend)) return false;
  if (qp.send_buffer != nullptr && told(port, qp) != static_cast<uint16_t>(qp.send.posted)) {
    return !qp.send.doorbell_fault || !failed;
  }
  if (!failed || qp.receive_buffer == nullptr) return false;
  const uint32_t received = client_word(&qp.doorbell->receive);
  return ((received ^ static_cast<uint32_t>(qp.receive.consumed)) & 0xffff) != 0;
}

}  // namespace peal::softnic
