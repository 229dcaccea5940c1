// SPDX-License-Identifier: Apache-2.0
//
// pidfds, a socket, an eventfd and one poll(). A PE that cannot be watched (other host, other pid
// namespace, no pidfd) is left out.
#include "host/watcher.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <utility>

#include "host/base/error.h"

namespace peal {

Watcher::Watcher(std::span<const Place> places, int channel, Calls calls)
    : calls_(std::move(calls)), channel_(channel) {
  const Place mine = Place::here();
  for (size_t pe = 0; pe < places.size(); ++pe) {
    const Place& other = places[pe];
    if (!same_pids(mine, other) || other.pid == mine.pid) continue;
    const auto fd = static_cast<int>(syscall(SYS_pidfd_open, other.pid, 0));
    if (fd >= 0) peers_.push_back({static_cast<int>(pe), static_cast<int>(other.pid), fd});
  }
  wake_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wake_ < 0) fail_errno(errno, "eventfd");
  thread_ = std::thread([this] { watch(); });
}

Watcher::~Watcher() {
  ending_ = true;
  wake();
  if (thread_.joinable()) thread_.join();
  for (const Peer& peer : peers_) close(peer.fd);
  if (wake_ >= 0) close(wake_);
}

void Watcher::wake() const {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(wake_, &one, sizeof(one));
}

void Watcher::tick_every(std::chrono::milliseconds period) {
  period_ms_ = static_cast<int>(period.count());
  wake();
}

bool Watcher::watches(int pe) const {
  return std::ranges::find(peers_, pe, &Peer::pe) != peers_.end();
}

void Watcher::watch() {
  std::vector<pollfd> fds;
  for (const Peer& peer : peers_) fds.push_back({peer.fd, POLLIN, 0});
  fds.push_back({channel_, POLLIN, 0});
  fds.push_back({wake_, POLLIN, 0});
  while (!ending_) {
    const int period = period_ms_;
    if (poll(fds.data(), fds.size(), period > 0 ? period : -1) < 0 && errno != EINTR) return;
    uint64_t wakes = 0;
    [[maybe_unused]] const ssize_t got = read(wake_, &wakes, sizeof(wakes));
    if (ending_) return;
    // Before the ends of processes: what they sent while they lived counts.
    calls_.message();
    for (size_t i = 0; i < peers_.size(); ++i) {
      if (fds[i].fd < 0 || fds[i].revents == 0) continue;
      fds[i].fd = -1;  // reported once
      calls_.lost(peers_[i].pe, peers_[i].pid);
    }
    if (period_ms_ > 0) calls_.tick();
  }
}

}  // namespace peal
