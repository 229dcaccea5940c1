// SPDX-License-Identifier: Apache-2.0
//
// poll() with a deadline that stays where it is when signals interrupt it, on any clock: that of
// deadlines is RunClock.
#pragma once

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <climits>
#include <span>
#include <type_traits>
#include <vector>

#include "base/run_clock.h"

namespace peal {

/// Milliseconds from now to `until`, rounded up; 0 when it has passed.
template <class Clock, class Duration>
int poll_timeout(std::chrono::time_point<Clock, Duration> until) {
  using std::chrono::milliseconds;
  const auto left = std::chrono::ceil<milliseconds>(until - Clock::now());
  return static_cast<int>(std::clamp<milliseconds::rep>(left.count(), 0, INT_MAX));
}

/// How many of `fds` are ready; 0 once `until` has passed; negative, and errno, for an error other
/// than EINTR.
template <class Clock, class Duration>
int poll_until(std::span<pollfd> fds, std::chrono::time_point<Clock, Duration> until) {
  constexpr int kSlice =
      std::is_same_v<Clock, RunClock> ? static_cast<int>(RunClock::kSlice.count()) : INT_MAX;
  for (;;) {
    const int left = poll_timeout(until);
    const int ready = ::poll(fds.data(), fds.size(), std::min(left, kSlice));
    if (ready > 0 || (ready == 0 && left == 0)) return ready;
    if (ready < 0 && errno != EINTR) return ready;
  }
}

/// The same for one descriptor and one event, such as POLLIN.
template <class Clock, class Duration>
int poll_until(int fd, short event, std::chrono::time_point<Clock, Duration> until) {
  pollfd one{.fd = fd, .events = event, .revents = 0};
  return poll_until(std::span(&one, 1), until);
}

/// Which of the sockets `fds`, where negative ones are none, have ended at their other end. Each is
/// told once: its place in `fds` becomes -1, as does that of one that was closed here.
inline std::vector<int> hung_up(std::span<int> fds) {
  std::vector<pollfd> polled;  // without those that are none: poll() counts them towards its limit
  std::vector<size_t> places;
  for (size_t place = 0; place < fds.size(); ++place) {
    if (fds[place] < 0) continue;
    polled.push_back({.fd = fds[place], .events = POLLRDHUP, .revents = 0});
    places.push_back(place);
  }
  if (::poll(polled.data(), polled.size(), 0) <= 0) return {};
  std::vector<int> ended;
  for (size_t i = 0; i < polled.size(); ++i) {
    if (polled[i].revents == 0) continue;
    fds[places[i]] = -1;
    if ((polled[i].revents & POLLNVAL) == 0) ended.push_back(static_cast<int>(places[i]));
  }
  return ended;
}

}  // namespace peal
