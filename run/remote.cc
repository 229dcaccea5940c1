// SPDX-License-Identifier: Apache-2.0
#include "run/remote.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "base/forks.h"
#include "base/poll.h"
#include "host/base/error.h"
#include "host/base/pipe.h"

namespace peal::run {
namespace {

constexpr std::chrono::seconds kLongestEnd{5};
constexpr int kInput = 3;  // where a local agent finds what PE 0 reads

// Quotes a word for the shell of the other host.
std::string quoted(const std::string& text) {
  std::string result = "'";
  for (const char c : text) result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return result + "'";
}

// PE 0 reads what peal-run was given, but for a terminal: processes of a group of their own may
// not.
bool has_input() { return ::fcntl(STDIN_FILENO, F_GETFD) >= 0 && ::isatty(STDIN_FILENO) == 0; }

}  // namespace

int exit_code_of(int wait_status) {
  return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

RemoteAgent::RemoteAgent(const RunOptions& options, const Host& host, int first)
    : RemoteAgent(
          spawn(command_for(options, host, first), first == 0 && !host.remote() && has_input()),
          host, first) {}

RemoteAgent::RemoteAgent(Child child, const Host& host, int first)
    : channel(std::move(child.connection), Fd()),
      host_(host),
      first_(first),
      pid_(child.pid),
      process_(std::move(child.process)) {
  complaints.fd = std::move(child.errors);
}

std::vector<std::string> RemoteAgent::command_for(const RunOptions& options, const Host& host,
                                                  int first) {
  if (host.remote()) {
    std::vector<std::string> argv = options.shell;
    argv.insert(argv.end(), {host.name, "exec " + quoted(options.agent) + " --agent"});
    return argv;
  }
  std::vector<std::string> argv{"/proc/self/exe", "--agent"};
  if (first == 0 && has_input()) argv.insert(argv.end(), {"--input", std::to_string(kInput)});
  return argv;
}

RemoteAgent::Child RemoteAgent::spawn(const std::vector<std::string>& argv, bool with_input) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0) {
    fail_errno(errno, "socketpair");
  }
  Fd mine(ends[0]);
  const Fd theirs(ends[1]);
  Pipe errors;
  const pid_t pid = Forks::fork_whole();
  if (pid < 0) fail_errno(errno, "fork of an agent");
  if (pid == 0) {
    ::setpgid(0, 0);  // a terminal's signals are for peal-run, which hands them on
    const int connection = ::fcntl(theirs.get(), F_DUPFD_CLOEXEC, kInput + 1);
    const int complaints = ::fcntl(errors.write.get(), F_DUPFD_CLOEXEC, kInput + 1);
    if (with_input) ::dup2(STDIN_FILENO, kInput);
    ::dup2(connection, STDIN_FILENO);
    ::dup2(connection, STDOUT_FILENO);
    ::dup2(complaints, STDERR_FILENO);
    const std::string why = fmt::format("{}: {}\n", argv[0], std::strerror(execute(argv)));
    [[maybe_unused]] const ssize_t n = ::write(STDERR_FILENO, why.data(), why.size());
    ::_exit(127);
  }
  ::setpgid(pid, pid);
  Fd process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!process) fail_errno(errno, "pidfd_open (Linux 5.3 or newer is needed)");
  ::fcntl(errors.read.get(), F_SETFL, O_NONBLOCK);
  return {pid, std::move(process), std::move(mine), std::move(errors.read)};
}

std::string RemoteAgent::where() const {
  return host_.remote() ? "host " + host_.name : std::string("this machine");
}

void RemoteAgent::wake() const { ::kill(pid_, SIGCONT); }

void RemoteAgent::cut() { ::kill(pid_, SIGKILL); }

std::string RemoteAgent::end() {
  if (poll_until(process_.get(), POLLIN, std::chrono::steady_clock::now() + kLongestEnd) <= 0)
    cut();
  poll_until(process_.get(), POLLIN, std::chrono::steady_clock::now() + kLongestEnd);
  int status = 0;
  if (::waitpid(pid_, &status, WNOHANG) != pid_) return "does not end";
  return how_it_ended(status);
}

}  // namespace peal::run
