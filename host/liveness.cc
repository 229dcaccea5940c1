// SPDX-License-Identifier: Apache-2.0
//
// pidfds and one poll(). A PE that cannot be watched (other host, other pid namespace, no pidfd) is
// left out.
#include "host/liveness.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "host/base/error.h"

namespace peal {

Liveness::Liveness(std::span<const Place> places, Lost lost) : lost_(std::move(lost)) {
  const Place mine = Place::here();
  for (size_t pe = 0; pe < places.size(); ++pe) {
    const Place& other = places[pe];
    if (!same_pids(mine, other) || other.pid == mine.pid) continue;
    const auto fd = static_cast<int>(syscall(SYS_pidfd_open, other.pid, 0));
    if (fd >= 0) peers_.push_back({static_cast<int>(pe), static_cast<int>(other.pid), fd});
  }
  if (peers_.empty()) return;
  wake_ = eventfd(0, EFD_CLOEXEC);
  if (wake_ < 0) fail_errno(errno, "eventfd");
  thread_ = std::thread([this] { watch(); });
}

Liveness::~Liveness() {
  if (thread_.joinable()) {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = write(wake_, &one, sizeof(one));
    thread_.join();
  }
  for (const Peer& peer : peers_) {
    if (peer.fd >= 0) close(peer.fd);
  }
  if (wake_ >= 0) close(wake_);
}

void Liveness::watch() {
  std::vector<pollfd> fds;
  for (const Peer& peer : peers_) fds.push_back({peer.fd, POLLIN, 0});
  fds.push_back({wake_, POLLIN, 0});
  for (;;) {
    if (poll(fds.data(), fds.size(), -1) < 0 && errno != EINTR) return;
    if (fds.back().revents != 0) return;
    for (size_t i = 0; i < peers_.size(); ++i) {
      if (fds[i].revents == 0) continue;
      fds[i].fd = -1;  // reported once
      lost_(peers_[i].pe, peers_[i].pid);
    }
  }
}

}  // namespace peal
