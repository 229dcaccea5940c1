// SPDX-License-Identifier: Apache-2.0
//
// The NIC as a kernel, as seen by whoever launches it, and its wire.
#pragma once

#include <cstdint>

#include "softnic/engine/engine.h"
#include "softnic/gpu/copy_board.h"

namespace peal::softnic::gpu {

/// The wire between NICs whose tables lie in one address space: every peer is asked directly, and
/// whoever is not here is nowhere. See requester.h for what a wire promises.
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

/// A queue pair to serve, in memory of the GPU.
struct Assignment {
  Port* port;
  QueuePair* qp;
};

/// Words in host memory that both sides watch.
struct Watch {
  alignas(64) uint32_t stop;       // host: finish what you are at and return
  uint32_t beat;                   // host: counts while it lives
  alignas(64) uint32_t attention;  // kernel: an event wants to be collected
};

struct EngineArguments {
  Port* const* ports;  // by LID, null where there is none
  uint32_t lids;
  uint32_t work_count;
  const Assignment* work;
  Watch* watch;
  uint32_t* order;       // of the GPU: `stop` as the blocks see it; 0 before the launch
  CopyBoard* board;      // of the GPU: zero before the launch
  uint32_t slots = 0;    // of a warp; launch_engine() says how many
  uint64_t patience_ns;  // without a beat until the kernel returns by itself
  bool lossy = false;    // NICs have fault plans; then the work of a port lies side by side
};

/// Launches on `stream` (a cudaStream_t): as many blocks as the work can use, some more where that
/// is little, at most `most_blocks`, each of half a multiprocessor; with `lossy` one thread serves
/// all of it (lossy.h). Answers null, or what CUDA says.
const char* launch_engine(const EngineArguments& arguments, uint32_t most_blocks, void* stream);

}  // namespace peal::softnic::gpu
