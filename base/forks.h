// SPDX-License-Identifier: Apache-2.0
//
// What a child by fork() does with its copy of what its parent has. Threads, sockets, queues and a
// place in the order of collective calls belong to one process: a child that used its copies, or
// destroyed them at its exit(), would use or destroy those of its parent.
//
//   Maker      which process made an object: here() is false in a child
//   OfProcess  the owner of such an object: a child neither reaches nor destroys it
//   Forks      counts, and closes in the child the descriptors that Fd (base/fd.h) owns: a
//              connection ends when its process does, though a child lives on
//
// Children by vfork(), posix_spawn() and a bare clone() run no handlers: they are for exec().
#pragma once

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/immortal.h"

namespace peal {

/// One for each library of a process, as handlers of fork() are. Thread-safe.
class Forks {
 public:
  static Forks& of_process() {
    static Immortal<Forks> the_one;
    return *the_one;
  }
  Forks() { ::pthread_atfork(before, in_parent, in_child); }

  /// Another number in each child.
  uint32_t generation() const { return generation_.load(std::memory_order_relaxed); }

  void opened(int fd) {
    const std::lock_guard lock(mutex_);
    const auto word = static_cast<size_t>(fd) / 64;
    if (word >= open_.size()) open_.resize(word + 1);
    open_[word] |= bit(fd);
  }
  void closed(int fd) {
    const std::lock_guard lock(mutex_);
    const auto word = static_cast<size_t>(fd) / 64;
    if (word < open_.size()) open_[word] &= ~bit(fd);
  }

  /// fork() for a child that is part of the same program: it keeps descriptors and objects.
  static pid_t fork_whole() {
    keeps() = true;
    const pid_t pid = ::fork();
    keeps() = false;
    return pid;
  }

 private:
  static uint64_t bit(int fd) { return uint64_t{1} << (static_cast<unsigned>(fd) % 64); }
  static bool& keeps() {
    static thread_local bool set = false;
    return set;
  }
  // The lock is held over fork(), so that the child finds the list whole.
  static void before() { of_process().mutex_.lock(); }
  static void in_parent() { of_process().mutex_.unlock(); }
  static void in_child() {
    Forks& forks = of_process();
    if (!keeps()) forks.leave_to_parent();
    forks.mutex_.unlock();
  }
  void leave_to_parent() {
    generation_.fetch_add(1, std::memory_order_relaxed);
    for (size_t word = 0; word < open_.size(); ++word) {
      for (int i = 0; i < 64; ++i) {
        if ((open_[word] >> i & 1) != 0) ::close(static_cast<int>(word) * 64 + i);
      }
      open_[word] = 0;
    }
  }

  std::atomic<uint32_t> generation_{0};
  std::mutex mutex_;            // guards what follows
  std::vector<uint64_t> open_;  // a bit for each descriptor
};

/// Part of an object: which process made it.
class Maker {
 public:
  bool here() const { return generation_ == Forks::of_process().generation(); }

 private:
  uint32_t generation_ = Forks::of_process().generation();
};

/// Owns a T, or nothing. In a child of fork() the copy is left as it is, for good.
template <class T>
class OfProcess {
 public:
  OfProcess() = default;
  explicit OfProcess(std::unique_ptr<T> object) : object_(std::move(object)) {}
  OfProcess(OfProcess&&) noexcept = default;
  OfProcess& operator=(OfProcess&& other) noexcept {
    OfProcess old(std::exchange(object_, std::move(other.object_)), maker_);
    maker_ = other.maker_;
    return *this;
  }
  ~OfProcess() {
    if (!maker_.here()) static_cast<void>(object_.release());
  }

  bool here() const { return maker_.here(); }
  T& operator*() const { return *object_; }
  std::unique_ptr<T> take() { return std::move(object_); }

 private:
  OfProcess(std::unique_ptr<T> object, const Maker& maker)
      : object_(std::move(object)), maker_(maker) {}

  std::unique_ptr<T> object_;
  Maker maker_;
};

/// Says how a child ended, by waitpid()'s status: "was killed by signal 9 (Killed)", "exited with
/// code 3".
inline std::string how_it_ended(int wait_status) {
  if (!WIFSIGNALED(wait_status)) {
    return "exited with code " + std::to_string(WEXITSTATUS(wait_status));
  }
  const int signal = WTERMSIG(wait_status);
  return "was killed by signal " + std::to_string(signal) + " (" + ::strsignal(signal) + ")";
}

}  // namespace peal
