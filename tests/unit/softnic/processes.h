// SPDX-License-Identifier: Apache-2.0
//
// Two processes with a software NIC each: the test forks before it opens its own, and both sides
// exchange what out-of-band set-up exchanges, over a socket pair.
#pragma once

#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

#include "tests/unit/softnic/support.h"

namespace peal::softnic::testing {

/// One end of a socket pair that carries plain values.
class Line {
 public:
  explicit Line(int fd) : fd_(fd) {}
  ~Line() { close(fd_); }
  Line(const Line&) = delete;
  Line& operator=(const Line&) = delete;

  template <class T>
  void say(const T& value) {
    EXPECT_EQ(write(fd_, &value, sizeof(value)), static_cast<ssize_t>(sizeof(value)));
  }
  /// False at the deadline, or when the other side has gone.
  template <class T>
  bool hear(T* value) {
    auto* at = reinterpret_cast<char*>(value);
    for (size_t left = sizeof(T); left > 0;) {
      pollfd ready = {fd_, POLLIN, 0};
      if (::poll(&ready, 1, 120'000) != 1) return false;
      const ssize_t got = read(fd_, at, left);
      if (got <= 0) return false;
      at += got;
      left -= static_cast<size_t>(got);
    }
    return true;
  }
  template <class T>
  T hear() {
    T value{};
    EXPECT_TRUE(hear(&value)) << "the other process fell silent";
    return value;
  }
  /// Both sides meet here.
  void meet() {
    say('m');
    hear<char>();
  }

 private:
  int fd_;
};

/// A forked process that runs `role` and whose failures become this test's.
class Process {
 public:
  explicit Process(const std::function<void(Line&)>& role) {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    signal(SIGPIPE, SIG_IGN);
    pid_ = fork();
    if (pid_ == 0) {
      close(ends[0]);
      {
        Line line(ends[1]);
        role(line);
      }
      _exit(::testing::Test::HasFailure() ? 1 : 0);
    }
    close(ends[1]);
    line_ = std::make_unique<Line>(ends[0]);
  }
  ~Process() {
    if (pid_ <= 0) return;
    line_.reset();
    int status = 0;
    EXPECT_EQ(waitpid(pid_, &status, 0), pid_);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "the other process failed";
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  void kill() {
    ::kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }
  /// The signal by which the process ends; 0 when it ends otherwise.
  int await_signal() {
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = 0;
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  }
  Line& line() { return *line_; }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = 0;
  std::unique_ptr<Line> line_;
};

/// What a peer must know.
struct Card {
  uint16_t lid;
  uint32_t qpn;
  uint32_t key;
};

/// A NIC with one queue pair and one region, of which every process has one.
struct Station {
  explicit Station(size_t bytes = 1 << 16, Qp::Options options = {})
      : nic(SoftwareNic::open()),
        pd(nic->allocate_pd().number),
        cq(*nic, {.log_entries = 10}),
        receive_cq(*nic, {}),
        memory(*nic, pd, bytes),
        qp(*nic, pd, cq, receive_cq, options) {}

  Card card() const { return {nic->lid(), qp.qpn, memory.key}; }
  void connect(Line& line) {
    line.say(card());
    peer = line.hear<Card>();
    qp.connect(peer.lid, peer.qpn);
    line.meet();
  }
  SeenCqe run(const Wqe& wqe) {
    qp.post(wqe);
    qp.ring();
    return cq.await();
  }

  /// For a race detector what the NIC has written is earlier and what it writes next is later: a
  /// control call stops its thread. What one hears from the other process orders nothing there, nor
  /// does a word of the data, as words are placed in any order.
  void stop_nic() const { static_cast<void>(qp.query()); }

  std::shared_ptr<SoftwareNic> nic;
  uint32_t pd;
  Cq cq;
  Cq receive_cq;
  Region memory;
  Qp qp;
  Card peer = {};
};

}  // namespace peal::softnic::testing
