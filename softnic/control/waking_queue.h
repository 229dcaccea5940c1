// SPDX-License-Identifier: Apache-2.0
//
// A queue of events with a descriptor, an eventfd, that is readable exactly while one waits: poll,
// epoll and O_NONBLOCK do with it what they do with rdma-core's. And one descriptor for several.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <system_error>
#include <utility>

#include "base/fd.h"

namespace peal::softnic {

template <class T>
class WakingQueue {
 public:
  /// EFD_NONBLOCK where nobody else sees the descriptor: a child that shares it may have emptied
  /// it.
  explicit WakingQueue(int flags = 0) : wake_(eventfd(0, EFD_CLOEXEC | flags)) {
    if (wake_.get() < 0) throw std::system_error(errno, std::generic_category(), "eventfd");
  }
  int fd() const { return wake_.get(); }
  bool empty() const {
    const std::lock_guard hold(mutex_);
    return waiting_.empty();
  }

  void push(T event) {
    const std::lock_guard hold(mutex_);
    waiting_.push_back(std::move(event));
    const uint64_t one = 1;
    // Cannot fail: the counter is 0 or 1.
    if (waiting_.size() == 1) [[maybe_unused]]
      const ssize_t n = write(fd(), &one, sizeof one);
  }
  /// Takes the oldest event, if there is one, and hands it to `use` before anybody may forget it.
  template <class Use>
  bool take(const Use& use) {
    const std::lock_guard hold(mutex_);
    if (waiting_.empty()) return false;
    use(waiting_.front());
    waiting_.pop_front();
    clear_wake_if_empty();
    return true;
  }
  template <class Which>
  void forget(const Which& which) {
    const std::lock_guard hold(mutex_);
    if (std::erase_if(waiting_, which) > 0) clear_wake_if_empty();
  }

 private:
  /// To be called after events were taken: the descriptor of an empty queue is not readable.
  void clear_wake_if_empty() {
    uint64_t count = 0;
    if (waiting_.empty()) [[maybe_unused]]
      const ssize_t n = read(fd(), &count, sizeof count);
  }

  Fd wake_;
  mutable std::mutex mutex_;
  std::deque<T> waiting_;
};

/// A descriptor that is readable while one of those that it has is.
class AnyReadable {
 public:
  AnyReadable() : epoll_(epoll_create1(EPOLL_CLOEXEC)) { require(epoll_.get(), "epoll_create1"); }
  AnyReadable(int first, int second) : AnyReadable() {
    add(first);
    add(second);
  }
  void add(int fd) {
    epoll_event event = {};
    event.events = EPOLLIN;
    require(epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event), "epoll_ctl");
  }
  int fd() const { return epoll_.get(); }

 private:
  static void require(int answer, const char* call) {
    if (answer >= 0) return;
    throw std::system_error(errno, std::generic_category(), std::string("softnic: ") + call);
  }

  Fd epoll_;
};

/// Waits until `take` has taken something, 1, or failed, -1 and errno; 0 sends it back to wait for
/// `fd`. Where that is O_NONBLOCK nothing is waited for: EAGAIN, as the manual pages say. A signal
/// does not end the wait: rdma-core waits in read(), which goes on after a handler.
template <class Take>
int take_or_wait(int fd, const Take& take) {
  for (;;) {
    if (const int taken = take(); taken != 0) return taken < 0 ? -1 : 0;
    if ((fcntl(fd, F_GETFL) & O_NONBLOCK) != 0) {
      errno = EAGAIN;
      return -1;
    }
    pollfd wait = {.fd = fd, .events = POLLIN, .revents = 0};
    if (poll(&wait, 1, -1) < 0 && errno != EINTR) return -1;
  }
}

}  // namespace peal::softnic
