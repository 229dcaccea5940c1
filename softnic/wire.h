// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "softnic/engine.h"
#include "softnic/fabric.h"
namespace peal::softnic {
class ShmWire {
 public:
  ShmWire(Port& port, Fabric&) : port_(port) {}
  bool poll(uint64_t) { return false; }
  Port* direct(uint16_t lid) { return lid == port_.lid ? &port_ : nullptr; }
  SendStatus open(uint16_t, uint64_t&) { return SendStatus::kAbsent; }
  uint32_t segment_bytes(uint16_t) { return 1; }
  SendStatus send(uint16_t, const Packet&, const Payload&) { return SendStatus::kAbsent; }
  uint64_t position(uint16_t) { return 0; }
  uint64_t consumed(uint16_t) { return 0; }
  bool lost(uint16_t, uint64_t) { return false; }

 private:
  Port& port_;
};
}  // namespace peal::softnic
