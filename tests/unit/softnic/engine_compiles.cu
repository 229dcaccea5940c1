// SPDX-License-Identifier: Apache-2.0
//
// The engine as a kernel: compiled wherever nvcc is, never run. Keeps every function of the engine
// free of what a GPU does not have.
#include "softnic/engine/engine.h"
#include "softnic/engine/serve.h"
#include "softnic/wire/ring.h"

namespace peal::softnic {

/// Peers in reach only, as between GPUs that map each other's memory.
struct DirectWire {
  Port* peer;

  PEAL_HD Port* direct(uint16_t) { return peer; }
  PEAL_HD SendStatus open(uint16_t, uint64_t&) { return SendStatus::kAbsent; }
  PEAL_HD uint32_t segment_bytes(uint16_t) { return 1; }
  PEAL_HD SendStatus send(uint16_t, const Packet&, const Payload&) { return SendStatus::kAbsent; }
  PEAL_HD uint64_t position(uint16_t) { return 0; }
  PEAL_HD uint64_t consumed(uint16_t) { return 0; }
  PEAL_HD bool lost(uint16_t, uint64_t) { return false; }
};

struct RingReplies {
  RingWriter& answers;

  PEAL_HD void acknowledge(const Packet& packet) { answers.append(packet, Payload{0, 0, {}}); }
  PEAL_HD void answer(const Packet& packet, const Payload& payload) {
    answers.append(packet, payload);
  }
};

__global__ void engine_kernel(Port* port, Port* peer, RingReader* requests, RingWriter* answers,
                              const volatile bool* stop) {
  DirectWire wire{peer};
  RingReplies replies{*answers};
  for (uint64_t now = 0; !*stop; ++now) {
    QueuePair& qp = port->qps[blockIdx.x];
    if (rung(*port, qp) || unsettled(qp)) advance(*port, wire, qp, now, 64);
    Packet packet;
    Payload payload;
    while (requests->peek(packet, payload) && answers->room(4096)) {
      if (packet.kind == PacketKind::kRequest) {
        RequestServer<RingReplies>(*port, 1, replies, now).serve(packet, payload);
      } else {
        take_answer(*port, packet, payload, now);
      }
      requests->take();
    }
    requests->publish();
    answers->publish();
  }
}

}  // namespace peal::softnic
