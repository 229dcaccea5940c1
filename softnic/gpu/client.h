// SPDX-License-Identifier: Apache-2.0
//
// The PE's end of the GPU engine: finds or starts its process, shows it memory, forwards commands.
//
// When the process has gone, every queue pair counts as failed: queries say so, creating anything
// is refused, destroying succeeds.
#pragma once

#include <sys/types.h>

#include <map>
#include <mutex>
#include <set>
#include <string>

#include "softnic/gpu/exporter.h"
#include "softnic/gpu/message.h"
#include "softnic/gpu/message_socket.h"

namespace peal::softnic::gpu {

class Client {
 public:
  struct Place {
    std::string directory;  // of the fabric
    std::string program;    // that runs the engine
  };

  /// Joins the engine of the fabric, starting it if need be. `exporter` must outlive the client.
  /// Throws std::runtime_error naming what failed and what to do.
  Client(const Place& place, const ProcessHello& hello, const Exporter& exporter);

  Outcome run(const Command& command);
  bool next_event(AsyncEvent* event);
  int event_fd() const { return events_.fd(); }

  /// The GPU that the engine runs on: the one that this PE asked for, or that the first PE of the
  /// fabric did.
  const GpuId& gpu() const { return gpu_; }
  /// The number of the engine's process.
  pid_t engine_pid() const { return calls_.peer_pid(); }

 private:
  bool join(const Place& place, const ProcessHello& hello);
  bool exchange(const Demand& call, Reply* reply, int descriptor = -1);
  Refusal show(const void* address, uint64_t bytes);
  Refusal unreachable(CommandStatus status, const char* reason);
  Outcome ask(const Command& command);

  const Exporter& exporter_;
  mutable std::mutex mutex_;
  MessageSocket calls_;
  MessageSocket events_;
  GpuId gpu_;
  std::map<uint32_t, QueuePairAttributes> known_qps_;  // what is still said of them afterwards
  std::set<std::string> reasons_;                      // Refusal::reason points here
};

}  // namespace peal::softnic::gpu
