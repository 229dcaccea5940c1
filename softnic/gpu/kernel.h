// SPDX-License-Identifier: Apache-2.0
//
// The NIC as a kernel, as seen by whoever launches it.
#pragma once

#include <cstdint>

#include "softnic/engine/objects.h"

namespace peal::softnic::gpu {

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
  uint32_t slots = 0;    // of a warp; launch_engine() says how many
  uint64_t patience_ns;  // without a beat until the kernel returns by itself
  bool lossy = false;    // NICs have fault plans; then the work of a port lies side by side
};

/// Launches on `stream` (a cudaStream_t); as many blocks and warps as the work can use, at most
/// `most_blocks`, each of half a multiprocessor; with `lossy` one thread serves all of it
/// (lossy.h). Answers null, or what CUDA says.
const char* launch_engine(const EngineArguments& arguments, uint32_t most_blocks, void* stream);

}  // namespace peal::softnic::gpu
