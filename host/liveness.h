// SPDX-License-Identifier: Apache-2.0
//
// Notices that the process of another PE has ended, so that kernels which wait for it are told
// instead of waiting on.
//
// Watches the processes of this host through their pidfds: no polling, no cost while all is well.
// PEs on other hosts are the bootstrap's and the NIC's business (retry exceeded).
#pragma once

#include <functional>
#include <span>
#include <thread>
#include <vector>

#include "host/base/place.h"

namespace peal {

/// Calls `lost(pe)` from a thread of its own, once for each PE whose process ends.
class Liveness {
 public:
  using Lost = std::function<void(int pe, int pid)>;

  Liveness(std::span<const Place> places, Lost lost);  // by PE
  ~Liveness();
  Liveness(const Liveness&) = delete;
  Liveness& operator=(const Liveness&) = delete;

 private:
  struct Peer {
    int pe;
    int pid;
    int fd;
  };
  void watch();

  Lost lost_;
  std::vector<Peer> peers_;
  int wake_ = -1;
  std::thread thread_;
};

}  // namespace peal
