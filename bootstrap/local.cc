// SPDX-License-Identifier: Apache-2.0
//
// PEs that one program starts: itself alone, a thread each, or a forked process each. A child holds
// the write end of a report pipe: what it throws is written there, and its closing wakes the
// parent, which reaps until all children have ended or the job's limit kills them.
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <exception>
#include <optional>
#include <thread>
#include <utility>

#include "base/forks.h"
#include "base/poll.h"
#include "bootstrap/bootstraps.h"
#include "bootstrap/star.h"
#include "bootstrap/wire.h"
#include "host/base/pipe.h"

namespace peal::bootstrap {
namespace {

template <class Body>
std::optional<Error> thrown_by(const Body& body) {
  try {
    body();
    return std::nullopt;
  } catch (const Error& error) {
    return error;
  } catch (const std::exception& error) {
    return Error(ErrorCode::kPeerLost, error.what());
  } catch (...) {
    return Error(ErrorCode::kPeerLost, "threw something that is not a std::exception");
  }
}

// "rank 1 of 4: why; rank 3 of 4 exited with code 2".
class RankFailures {
 public:
  explicit RankFailures(int count) : count_(count) {}
  void add(std::size_t rank, const std::string& how) {
    text_ += fmt::format("{}rank {} of {}{}", text_.empty() ? "" : "; ", rank, count_, how);
  }
  void throw_if_any(ErrorCode code) const {
    if (!text_.empty()) throw Error(code, text_);
  }

 private:
  int count_;
  std::string text_;
};

// A forked child, from the parent's side; killed and reaped by the destructor if it still runs.
class Child {
 public:
  Child(pid_t pid, Fd report) : pid_(pid), report_(std::move(report)) {}
  Child(Child&& other) noexcept
      : pid_(std::exchange(other.pid_, -1)),
        status_(other.status_),
        report_(std::move(other.report_)),
        text_(std::move(other.text_)) {}
  ~Child() {
    if (pid_ < 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }

  int report() const { return report_.get(); }

  // Reads what poll() found in the report pipe.
  void read_report() {
    std::array<char, 4096> chunk;
    const ssize_t n = ::read(report_.get(), chunk.data(), chunk.size());
    if (n > 0) text_.append(chunk.data(), static_cast<std::size_t>(n));
    if (n == 0 || (n < 0 && errno != EINTR)) report_ = Fd();
  }

  // Reaps it if it has ended; the rest of its report is then in the pipe.
  bool ended() {
    if (pid_ < 0) return true;
    const pid_t reaped = ::waitpid(pid_, &status_, WNOHANG);
    if (reaped < 0) fail_errno(errno, "waitpid (does this program ignore SIGCHLD?)");
    if (reaped == 0) return false;
    pid_ = -1;
    return true;
  }

  // How it failed, after "rank r of n"; nothing for success.
  std::optional<std::string> failure() const {
    if (!text_.empty()) return ": " + text_;
    if (status_ == 0) return std::nullopt;
    return " " + how_it_ended(status_);
  }

 private:
  pid_t pid_;
  int status_ = 0;
  Fd report_;
  std::string text_;
};

struct Role {
  int rank;
  std::vector<Fd> links;
  Fd report;
};

// The whole life of a child. Ends with _exit: what the parent registered to run at exit is the
// parent's.
[[noreturn]] void live(Role role, const std::function<int(Bootstrap&)>& body, Deadline deadline) {
  int code = 1;
  const std::optional<Error> error = thrown_by([&] {
    Star star(make_stream_wire(role.rank, std::move(role.links)), deadline);
    const int result = body(star);
    code = result == 0 ? 0 : std::max(1, result & 0xff);  // 256 must not look like success
  });
  const std::string text = error ? error->what() : "";
  // A pipe holds 64 KiB; more than that, or a parent that is gone, loses text and nothing else.
  ::fcntl(role.report.get(), F_SETFL, O_NONBLOCK);
  [[maybe_unused]] const ssize_t written = ::write(role.report.get(), text.data(), text.size());
  std::fflush(nullptr);
  ::_exit(code);
}

std::vector<Child> fork_children(int count, const std::function<int(Bootstrap&)>& body,
                                 Deadline deadline) {
  std::vector<std::vector<Fd>> links = connect_locally(count);
  std::vector<Child> children;
  children.reserve(links.size());
  std::fflush(nullptr);  // or every child would print what is buffered here
  const pid_t parent = ::getpid();
  for (int r = 0; r < count; ++r) {
    Pipe pipe;
    const pid_t pid = Forks::fork_whole();
    if (pid < 0) fail_errno(errno, fmt::format("fork of rank {} of {}", r, count));
    if (pid == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (::getppid() != parent) ::_exit(1);
      Role role{.rank = r,
                .links = std::move(links[static_cast<std::size_t>(r)]),
                .report = std::move(pipe.write)};
      links.clear();  // a connection ends only when nobody else holds it open
      live(std::move(role), body, deadline);
    }
    children.emplace_back(pid, std::move(pipe.read));
    links[static_cast<std::size_t>(r)].clear();
  }
  return children;
}

// Until all have ended or the time is over.
void wait_for(std::vector<Child>& children, TimePoint until) {
  for (;;) {
    std::vector<pollfd> fds;
    bool closing = false;
    bool running = false;
    for (Child& child : children) {
      const bool alive = !child.ended();
      running |= alive;
      closing |= alive && child.report() < 0;
      fds.push_back({.fd = child.report(), .events = POLLIN, .revents = 0});
    }
    // Looking again now and then covers a report pipe that outlives its child in a grandchild.
    const int wait = std::min(running ? (closing ? 1 : 100) : 0, poll_timeout(until));
    if (::poll(fds.data(), fds.size(), wait) > 0) {
      for (std::size_t i = 0; i < fds.size(); ++i) {
        if (fds[i].revents != 0) children[i].read_report();
      }
    } else if (!running || Clock::now() >= until) {
      return;
    }
  }
}

}  // namespace

std::unique_ptr<Bootstrap> make_single() {
  return std::make_unique<Star>(make_stream_wire(0, std::vector<Fd>(1)), kDefaultDeadline);
}

void run_threads(int count, const std::function<void(Bootstrap&)>& body, Deadline deadline) {
  check_deadline(deadline);
  std::vector<std::vector<Fd>> links = connect_locally(count);
  std::vector<std::optional<Error>> errors(links.size());
  {
    std::vector<std::jthread> threads;
    for (std::size_t r = 0; r < links.size(); ++r) {
      threads.emplace_back([&errors, &body, deadline, r, mine = std::move(links[r])]() mutable {
        errors[r] = thrown_by([&] {
          Star star(make_stream_wire(static_cast<int>(r), std::move(mine)), deadline);
          body(star);
        });
      });
    }
  }
  // Where one rank failed the others lost it: the first that says anything else is the cause.
  ErrorCode code = ErrorCode::kPeerLost;
  RankFailures failures(count);
  for (std::size_t r = 0; r < errors.size(); ++r) {
    if (!errors[r]) continue;
    if (code == ErrorCode::kPeerLost) code = errors[r]->code();
    failures.add(r, std::string(": ") + errors[r]->what());
  }
  failures.throw_if_any(code);
}

void run_processes(int count, const std::function<int(Bootstrap&)>& body,
                   const ProcessLimits& limits) {
  check_deadline(limits.deadline);
  check_deadline(limits.job);
  std::vector<Child> children = fork_children(count, body, limits.deadline);
  wait_for(children, Clock::now() + limits.job);
  ErrorCode code = ErrorCode::kPeerLost;
  RankFailures failures(count);
  for (std::size_t r = 0; r < children.size(); ++r) {
    if (!children[r].ended()) {
      code = ErrorCode::kTimeout;
      failures.add(r, fmt::format(" did not end within {} and was killed", name_time(limits.job)));
    } else if (const auto failure = children[r].failure()) {
      failures.add(r, *failure);
    }
  }
  failures.throw_if_any(code);
}

}  // namespace peal::bootstrap
