// SPDX-License-Identifier: Apache-2.0
#include "run/pe.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/forks.h"
#include "base/poll.h"
#include "host/base/error.h"
#include "host/base/pipe.h"

namespace peal::run {
namespace {

constexpr std::size_t kLongestLine = std::size_t{1} << 20;
constexpr std::size_t kReadAtOnce = std::size_t{64} << 10;
constexpr std::chrono::seconds kLongestDeath{5};

/// What one process writes and another reads.
struct Outlet {
  Fd read;
  Fd write;
};

Outlet open_pipe() {
  Pipe ends;
  return {std::move(ends.read), std::move(ends.write)};
}

// Its bytes go through as they are: by itself a terminal would put a carriage return before each
// end of a line. Without `write` there is none, and errno says why.
Outlet open_terminal() {
  Outlet ends{Fd(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC)), Fd()};
  std::array<char, 64> name{};
  if (!ends.read || ::grantpt(ends.read.get()) != 0 || ::unlockpt(ends.read.get()) != 0 ||
      ::ptsname_r(ends.read.get(), name.data(), name.size()) != 0) {
    return ends;
  }
  Fd other(::open(name.data(), O_RDWR | O_NOCTTY | O_CLOEXEC));
  termios plain{};
  if (!other || ::tcgetattr(other.get(), &plain) != 0) return ends;
  ::cfmakeraw(&plain);
  if (::tcsetattr(other.get(), TCSANOW, &plain) == 0) ends.write = std::move(other);
  return ends;
}

CannotStart cannot_start(const std::string& what, int error) {
  return {error == ENOENT ? 127 : 126, what + ": " + std::strerror(error)};
}

bool enter(const std::string& folder) { return folder.empty() || ::chdir(folder.c_str()) == 0; }

int error_of_file(const std::string& path) {
  struct stat found {};
  if (::stat(path.c_str(), &found) != 0) return errno;
  if (S_ISDIR(found.st_mode)) return EISDIR;
  return ::access(path.c_str(), X_OK) == 0 ? 0 : errno;
}

}  // namespace

int execute(std::vector<std::string> argv) {
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::signal(SIGPIPE, SIG_DFL);
  std::vector<char*> pointers;
  for (std::string& text : argv) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  ::execvp(pointers[0], pointers.data());
  return errno;
}

void check(const StartCommand& command) {
  if (!enter(command.folder)) throw cannot_start("folder " + command.folder, errno);
  const std::string& program = command.argv.at(0);
  if (program.find('/') != program.npos) {
    if (const int error = error_of_file(program); error != 0) throw cannot_start(program, error);
    return;
  }
  const char* const path = std::getenv("PATH");
  std::string folders = path == nullptr ? "/bin:/usr/bin" : path;
  for (std::size_t at = 0; at <= folders.size();) {
    const std::size_t end = std::min(folders.find(':', at), folders.size());
    if (error_of_file(folders.substr(at, end - at) + "/" + program) == 0) return;
    at = end + 1;
  }
  throw CannotStart{127, program + ": not found in PATH"};
}

std::string Lines::add(std::string_view bytes) {
  const std::size_t end = bytes.rfind('\n') + 1;  // 0: there is none
  std::string whole = end == 0 ? "" : std::exchange(text_, "").append(bytes.substr(0, end));
  text_ += bytes.substr(end);
  if (text_.size() > kLongestLine) whole += rest();
  return whole;
}

std::string Lines::rest() {
  std::string last = std::exchange(text_, "");
  if (!last.empty()) last += '\n';
  return last;
}

std::string OutputStream::read() {
  std::string whole;
  std::vector<char> chunk(fd ? kReadAtOnce : 0);  // on the heap: a stack may have no more
  while (fd) {
    const ssize_t n = ::read(fd.get(), chunk.data(), chunk.size());
    if (n > 0) {
      whole += lines.add({chunk.data(), static_cast<std::size_t>(n)});
      if (whole.size() > kLongestLine) break;  // the rest later: others want to be heard too
    } else if (n < 0 && errno == EAGAIN) {
      break;
    } else if (n == 0 || errno != EINTR) {  // a terminal that nobody has open any more: EIO
      fd = Fd();
      whole += lines.rest();
    }
  }
  return whole;
}

LaunchedPe::LaunchedPe(const StartCommand& command, int input) {
  Outlet out;
  if (command.terminal) out = open_terminal();
  if (command.terminal && !out.write) no_terminal_ = std::strerror(errno);
  if (!out.write) out = open_pipe();
  Pipe err;
  Pipe report;
  const pid_t agent = ::getpid();
  pid_ = Forks::fork_whole();
  if (pid_ < 0) fail_errno(errno, "fork of a PE");
  if (pid_ == 0) {
    // What the agent sends to the group must find it, whoever runs first: both set it.
    ::setpgid(0, 0);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != agent) ::_exit(1);
    become(command, input, out.write.get(), err.write.get(), report.write.get());
  }
  ::setpgid(pid_, pid_);
  report.write = Fd();
  int error = 0;
  ssize_t n = 0;
  do {
    n = ::read(report.read.get(), &error, sizeof error);  // ends when it runs the program or fails
  } while (n < 0 && errno == EINTR);
  if (n == static_cast<ssize_t>(sizeof error)) {
    ::waitpid(std::exchange(pid_, -1), nullptr, 0);
    throw cannot_start(command.argv[0], error);
  }
  process_ = Fd(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
  if (!process_) {
    const int reason = errno;
    ::kill(-pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    fail_errno(reason, "pidfd_open (Linux 5.3 or newer is needed)");
  }
  set_non_blocking(out.read.get());
  set_non_blocking(err.read.get());
  output.fd = std::move(out.read);
  errors.fd = std::move(err.read);
}

void LaunchedPe::become(const StartCommand& command, int input, int out, int err, int report) {
  const Fd nothing(input < 0 ? ::open("/dev/null", O_RDONLY | O_CLOEXEC) : -1);
  ::dup2(input < 0 ? nothing.get() : input, STDIN_FILENO);
  ::dup2(out, STDOUT_FILENO);
  ::dup2(err, STDERR_FILENO);
  // The last of two that set the same variable counts: glibc's own order.
  for (const std::string& variable : command.environment) {
    const std::size_t equals = variable.find('=');
    ::setenv(variable.substr(0, equals).c_str(), variable.substr(equals + 1).c_str(), 1);
  }
  const int error = enter(command.folder) ? execute(command.argv) : errno;
  [[maybe_unused]] const ssize_t n = ::write(report, &error, sizeof error);
  ::_exit(127);
}

std::optional<int> LaunchedPe::status() {
  if (status_) return status_;
  siginfo_t info{};
  if (::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) != 0) {
    fail_errno(errno, "waitid of a PE");
  }
  if (info.si_pid == 0) return std::nullopt;
  status_ = info.si_code == CLD_EXITED ? (info.si_status & 0xff) << 8 : info.si_status & 0x7f;
  return status_;
}

void LaunchedPe::signal(int number) { ::kill(-pid_, number); }

LaunchedPe::~LaunchedPe() {
  if (pid_ < 0) return;
  ::kill(-pid_, SIGKILL);
  // One that the kernel does not let go stays behind as a zombie of this agent, which ends.
  poll_until(process_.get(), POLLIN, std::chrono::steady_clock::now() + kLongestDeath);
  ::waitpid(pid_, nullptr, WNOHANG);
}

}  // namespace peal::run
