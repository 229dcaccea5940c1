// SPDX-License-Identifier: Apache-2.0
//
// pidfds, a socket, an eventfd and one poll(), which ends now and then where there are no pidfds.
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
namespace {

constexpr int kLookAgainMs = 50;

}  // namespace

Watcher::Watcher(std::span<const Place> places, std::vector<int> channels, Callbacks calls)
    : calls_(std::move(calls)), channels_(std::move(channels)) {
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
    const bool gone = !fd && (errno == ESRCH || errno == EINVAL);
    // Linux before 5.3, or a filter of system calls.
    const bool refused = !fd && (errno == ENOSYS || errno == EPERM || errno == EACCES);
    if (!fd && !gone && !refused) {
      fail_errno(errno, fmt::format("pidfd_open({}) of PE {}", other.pid, pe));
    }
    const auto pid = static_cast<pid_t>(other.pid);
    peers_.push_back({.pe = static_cast<int>(pe),
                      .pid = pid,
                      .ended = gone || (refused && has_ended(pid, std::nullopt)),
                      .fd = std::move(fd),
                      .birth = refused ? stat_of_process(pid).birth : std::nullopt});
  }
}

bool Watcher::watches(int pe) const {
  return std::ranges::find(peers_, pe, &Peer::pe) != peers_.end();
}

void Watcher::watch() {
  std::vector<pollfd> fds;
  for (const Peer& peer : peers_) fds.push_back({peer.fd.get(), POLLIN, 0});
  for (const int fd : channels_) fds.push_back({fd, POLLIN, 0});
  fds.push_back({wake_.get(), POLLIN, 0});
  for (const Peer& peer : peers_) {
    if (peer.ended) calls_.lost(peer.pe, peer.pid);
  }
  while (!ending_) {
    const int ready = ::poll(fds.data(), fds.size(), patience());
    const int error = errno;
    if (ending_) return;
    if (ready < 0 && error == EINTR) continue;
    if (ready < 0)
      return calls_.broken(fmt::format("poll: {}", std::generic_category().message(error)));
    const auto closed = [](const pollfd& fd) { return (fd.revents & POLLNVAL) != 0; };
    if (std::ranges::any_of(fds, closed)) {
      return calls_.broken("somebody has closed a descriptor of peal's");
    }
    // Before the ends of processes: what they sent while they lived counts. A process that had
    // ended when a message was sent is seen to have, too: who tells of a loss is not taken for it.
    calls_.message();
    ::poll(fds.data(), fds.size(), 0);
    tell_of_ends(std::span(fds).first(peers_.size()));
    if (calls_.look) calls_.look();
  }
}

// Milliseconds that poll() may sleep.
int Watcher::patience() const {
  const bool by_looking =
      std::ranges::any_of(peers_, [](const Peer& peer) { return !peer.fd && !peer.ended; });
  return by_looking ? kLookAgainMs : static_cast<int>(calls_.look_period.count());
}

void Watcher::tell_of_ends(std::span<pollfd> fds) {
  for (size_t i = 0; i < peers_.size(); ++i) {
    Peer& peer = peers_[i];
    if (peer.ended) continue;
    peer.ended = peer.fd ? fds[i].revents != 0 : has_ended(peer.pid, peer.birth);
    if (!peer.ended) continue;
    fds[i].fd = -1;  // reported once
    calls_.lost(peer.pe, peer.pid);
  }
}

}  // namespace peal
