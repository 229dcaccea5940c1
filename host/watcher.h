// SPDX-License-Identifier: Apache-2.0
//
// A thread of a runtime: it notices that the process of a PE has ended, that a PE has sent a
// message, and, while somebody wants to be told, that a kernel has raised its alarm.
//
// Asleep in poll() on the pidfds of the peers' processes and the channel: no polling, no cost while
// all is well, but for the ticks that are asked for. PEs on other hosts are the NIC's business
// (retry exceeded).
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <span>
#include <thread>
#include <vector>

#include "host/base/place.h"

namespace peal {

/// Calls back from a thread of its own, until it is destroyed; a call under way is waited for.
class Watcher {
 public:
  struct Calls {
    std::function<void(int pe, int pid)> lost;  // once for each PE whose process ends
    std::function<void()> message;              // the channel can be read
    std::function<void()> tick;
  };

  /// `places` by PE; `channel` is a descriptor, -1 for none.
  Watcher(std::span<const Place> places, int channel, Calls calls);
  ~Watcher();
  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;

  /// tick() is called now and then every `period`; 0 ends that.
  void tick_every(std::chrono::milliseconds period);

  /// False for a PE in this process, on another host, in another pid namespace.
  bool watches(int pe) const;

 private:
  struct Peer {
    int pe;
    int pid;
    int fd;
  };
  void wake() const;
  void watch();

  Calls calls_;
  int channel_;
  std::vector<Peer> peers_;
  int wake_ = -1;
  std::atomic<bool> ending_{false};
  std::atomic<int> period_ms_{0};
  std::thread thread_;
};

}  // namespace peal
