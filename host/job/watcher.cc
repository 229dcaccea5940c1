// SPDX-License-Identifier: Apache-2.0
//
// pidfds, a socket, an eventfd and one poll().
#include "host/job/watcher.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <system_error>
#include <utility>

#include "host/base/error.h"

namespace peal {

Watcher::Watcher(std::span<const Place> places, int channel, Calls calls)
    : calls_(std::move(calls)), channel_(channel) {
  open(places);
  wake_ = Fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake_) fail_errno(errno, "eventfd");
  thread_ = std::thread([this] {
    ::prctl(PR_SET_NAME, "peal-watcher");
    watch();
  });
}

Watcher::~Watcher() {
  ending_ = true;
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(wake_.get(), &one, sizeof(one));
  if (thread_.joinable()) thread_.join();
}

void Watcher::open(std::span<const Place> places) {
  const Place mine = Place::here();
  for (size_t pe = 0; pe < places.size(); ++pe) {
    const Place& other = places[pe];
    if (!same_pids(mine, other) || other.pid == mine.pid) continue;
    Fd fd(static_cast<int>(::syscall(SYS_pidfd_open, other.pid, 0)));
    // EINVAL: the number is still that of a group or a session, of which the process was the
    // leader.
    const bool ended = !fd && (errno == ESRCH || errno == EINVAL);
    // Linux before 5.3, or a filter of system calls.
    if (!fd && (errno == ENOSYS || errno == EPERM)) continue;
    if (!fd && !ended) fail_errno(errno, fmt::format("pidfd_open({}) of PE {}", other.pid, pe));
    peers_.push_back({static_cast<int>(pe), static_cast<int>(other.pid), std::move(fd)});
  }
}

bool Watcher::watches(int pe) const {
  return std::ranges::find(peers_, pe, &Peer::pe) != peers_.end();
}

void Watcher::watch() {
  std::vector<pollfd> fds;
  for (const Peer& peer : peers_) fds.push_back({peer.fd.get(), POLLIN, 0});
  fds.push_back({channel_, POLLIN, 0});
  fds.push_back({wake_.get(), POLLIN, 0});
  for (const Peer& peer : peers_) {
    if (!peer.fd) calls_.lost(peer.pe, peer.pid);
  }
  while (!ending_) {
    const int period = calls_.look ? static_cast<int>(calls_.look_period.count()) : -1;
    const int ready = ::poll(fds.data(), fds.size(), period);
    const int error = errno;
    if (ending_) return;
    if (calls_.look) calls_.look();
    if (ready < 0 && error == EINTR) continue;
    if (ready < 0)
      return calls_.broken(fmt::format("poll: {}", std::generic_category().message(error)));
    const auto closed = [](const pollfd& fd) { return (fd.revents & POLLNVAL) != 0; };
    if (std::ranges::any_of(fds, closed)) {
      return calls_.broken("somebody has closed a descriptor of peal's");
    }
    // Before the ends of processes: what they sent while they lived counts.
    calls_.message();
    for (size_t i = 0; i < peers_.size(); ++i) {
      if (fds[i].fd < 0 || fds[i].revents == 0) continue;
      fds[i].fd = -1;  // reported once
      calls_.lost(peers_[i].pe, peers_[i].pid);
    }
  }
}

}  // namespace peal
