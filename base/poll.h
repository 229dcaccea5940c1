// SPDX-License-Identifier: Apache-2.0
//
// poll() with a deadline that stays where it is when signals interrupt it.
#pragma once

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <climits>
#include <span>

namespace peal {

/// Milliseconds from now to `until`, rounded up; 0 when it has passed.
inline int poll_timeout(std::chrono::steady_clock::time_point until) {
  using std::chrono::milliseconds;
  const auto left = std::chrono::ceil<milliseconds>(until - std::chrono::steady_clock::now());
  return static_cast<int>(std::clamp<milliseconds::rep>(left.count(), 0, INT_MAX));
}

/// How many of `fds` are ready; 0 once `until` has passed; negative, and errno, for an error other
/// than EINTR.
inline int poll_until(std::span<pollfd> fds, std::chrono::steady_clock::time_point until) {
  for (;;) {
    const int ready = ::poll(fds.data(), fds.size(), poll_timeout(until));
    if (ready >= 0 || errno != EINTR) return ready;
  }
}

/// The same for one descriptor and one event, such as POLLIN.
inline int poll_until(int fd, short event, std::chrono::steady_clock::time_point until) {
  pollfd one{.fd = fd, .events = event, .revents = 0};
  return poll_until({&one, 1}, until);
}

}  // namespace peal
