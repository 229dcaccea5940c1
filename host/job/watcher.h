// SPDX-License-Identifier: Apache-2.0
//
// A thread of a runtime: it notices that the process of a PE has ended, and that a PE has sent a
// message.
//
// Asleep in poll() on the pidfds of the peers' processes and the channel, but for a look at what
// kernels ran into, some times a second. Where the system refuses pidfds (Linux before 5.3, filters
// of containers that do not know them) it looks at /proc/PID/stat 20 times a second. PEs of other
// hosts are the matter of host_watch.h.
#pragma once

#include <poll.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/fd.h"
#include "host/base/place.h"
#include "host/job/process_stat.h"

namespace peal {

/// Calls back from a thread of its own, until it is destroyed; a call under way is waited for.
class Watcher {
 public:
  struct Callbacks {
    std::function<void(int pe, int pid)> lost;  // once for each PE whose process ends
    std::function<void()> message;              // the channel can be read
    // Called after all messages were delivered, and every `look_period` unless that is negative.
    std::function<void()> look = {};
    std::function<void(const std::string& why)> broken;  // the last: nothing is noticed any more
    std::chrono::milliseconds look_period{-1};
  };

  /// `places` by PE; `channels` are descriptors. A process that has ended already is
  /// lost. Throws kSystem where a process cannot be watched though the kernel could.
  Watcher(std::span<const Place> places, std::vector<int> channels, Callbacks calls);
  ~Watcher();
  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;

  /// False for a PE in this process, on another host or in another pid namespace.
  bool watches(int pe) const;

 private:
  struct Peer {
    int pe;
    int pid;
    bool ended;                  // and that was told, or is to be told at once
    Fd fd;                       // none: it had ended, or is looked for
    std::optional<Birth> birth;  // of one that is looked for, where /proc tells
  };
  void open(std::span<const Place> places);
  void watch();
  int patience() const;
  void tell_of_ends(std::span<pollfd> fds);

  Callbacks calls_;
  std::vector<int> channels_;
  std::vector<Peer> peers_;
  Fd wake_;
  std::atomic<bool> ending_{false};
  std::thread thread_;
};

}  // namespace peal
