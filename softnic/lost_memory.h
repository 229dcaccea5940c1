// SPDX-License-Identifier: Apache-2.0
//
// Memory that a client unmaps while the NIC still has it registered. Linux pins what is registered:
// a card goes on reading and writing the pages, and clients rely on it (UCX unmaps first, destroys
// its queue pairs then, and takes its registrations back last). The engine on the CPU would fault,
// and the client's process die.
//
//   engine touches a page that has gone -> SIGSEGV -> a page of zeros stands in for it, the key
//   that covers it covers nothing any more -> the engine goes on; what it read is not sent
//
// What a peer writes there is dropped, as on a card; what is sent from there fails as outside of
// its key, where a card would send what the page held.
//
// Only where a program has come to the NIC by rdma-core's names: peal itself lets go of memory in
// order, and has a handler of its own for kernels that crash (simt/lanes/crash.h).
#pragma once

#include "softnic/engine/objects.h"

namespace peal::softnic {

/// While it lives, the calling thread is the engine of `port` and holds its lock whenever it
/// touches a client's memory.
class SurvivesLostMemory {
 public:
  explicit SurvivesLostMemory(Port& port);
  ~SurvivesLostMemory();
  SurvivesLostMemory(const SurvivesLostMemory&) = delete;
  SurvivesLostMemory& operator=(const SurvivesLostMemory&) = delete;
};

}  // namespace peal::softnic
