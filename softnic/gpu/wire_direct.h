// SPDX-License-Identifier: Apache-2.0
//
// The wire between NICs whose tables lie in one address space: every peer is asked directly, and
// whoever is not here is nowhere.
#pragma once

#include "softnic/engine/engine.h"

namespace peal::softnic::gpu {

/// See requester.h for what a wire promises.
struct DirectWire {
  Port* const* ports;  // by LID
  uint32_t lids;

  PEAL_HD Port* direct(uint16_t lid) { return lid < lids ? ports[lid] : nullptr; }
  PEAL_HD SendStatus open(uint16_t, uint64_t&) { return SendStatus::kAbsent; }
  PEAL_HD uint32_t segment_bytes(uint16_t) { return 1; }
  PEAL_HD SendStatus send(uint16_t, const Packet&, const Payload&) { return SendStatus::kAbsent; }
  PEAL_HD uint64_t position(uint16_t) { return 0; }
  PEAL_HD uint64_t consumed(uint16_t) { return ~0ull; }
  PEAL_HD bool lost(uint16_t, uint64_t) { return false; }
};

/// Queue pairs that may have work while nobody changes them.
PEAL_HD bool needs_service(const QueuePair& qp) {
  if (!qp.exists || qp.service == Service::kDcTarget) return false;
  const bool sends = qp.state == QpState::kReadyToSend && qp.send_buffer != nullptr;
  return sends || qp.state == QpState::kError;
}

}  // namespace peal::softnic::gpu
