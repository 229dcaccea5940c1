// SPDX-License-Identifier: Apache-2.0
#include "doctor/child.h"

#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <exception>
#include <utility>

#include "base/forks.h"
#include "base/poll.h"
#include "host/base/error.h"
#include "host/base/pipe.h"

namespace peal::doctor {
namespace {

// The last byte of what a child writes; one that died early has written none of them.
constexpr char kAnswered = '.';
constexpr char kThrew = '!';

[[noreturn]] void run(int pipe, const std::function<std::string()>& body) {
  std::string text;
  try {
    text = body() + kAnswered;
  } catch (const std::exception& error) {
    text = std::string(error.what()) + kThrew;
  }
  for (size_t sent = 0; sent < text.size();) {
    const ssize_t now = ::write(pipe, text.data() + sent, text.size() - sent);
    if (now < 0 && errno != EINTR) break;
    if (now > 0) sent += static_cast<size_t>(now);
  }
  ::_exit(0);  // what the libraries would do at exit is of no interest
}

}  // namespace

Child::Child(const std::function<std::string()>& body) {
  Pipe pipe;
  pipe_ = std::move(pipe.read);
  pid_ = Forks::fork_whole();
  if (pid_ < 0) fail_errno(errno, "fork");
  if (pid_ == 0) {
    pipe_ = Fd();
    run(pipe.write.get(), body);
  }
}

Child::~Child() {
  if (pid_ < 0) return;
  ::kill(pid_, SIGKILL);
  // Not waited for: a process that a driver holds in the kernel dies when the driver lets go.
  ::waitpid(pid_, nullptr, WNOHANG);
}

std::string Child::cause_of_death(Clock::time_point deadline) {
  // It has closed its end of the pipe, so this takes a moment, also where there is no pidfd.
  const Fd process(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
  if (process) poll_until(process.get(), POLLIN, deadline);
  int status = 0;
  pid_t ended = 0;
  while ((ended = ::waitpid(pid_, &status, WNOHANG)) == 0 && Clock::now() < deadline) {
    ::poll(nullptr, 0, 1);
  }
  if (ended != pid_) return "ended without an answer";
  pid_ = -1;
  return WIFSIGNALED(status) ? fmt::format("died of signal {}", WTERMSIG(status))
                             : fmt::format("ended with exit code {}", WEXITSTATUS(status));
}

Child::Answer Child::wait_until(Clock::time_point deadline) {
  std::string text;
  for (;;) {
    if (poll_until(pipe_.get(), POLLIN, deadline) <= 0) return {"", "no answer in time"};
    char bytes[4096];
    const ssize_t got = ::read(pipe_.get(), bytes, sizeof bytes);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    text.append(bytes, static_cast<size_t>(got));
  }
  const char last = text.empty() ? '\0' : text.back();
  if (last != kAnswered && last != kThrew) return {"", cause_of_death(deadline)};
  text.pop_back();
  return last == kAnswered ? Answer{text, ""} : Answer{"", text};
}

}  // namespace peal::doctor
