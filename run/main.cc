// SPDX-License-Identifier: Apache-2.0
//
// peal-run: starts the PEs of a job without MPI. See run/options.cc for what it takes,
// docs/running.md for what it does.
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <utility>

#include "run/agent.h"
#include "run/options.h"

namespace {

// The connection is standard input and output; both are made private before a PE could have them.
int run_agent(int input) {
  using peal::Fd;
  if (input >= 0) ::fcntl(input, F_SETFD, FD_CLOEXEC);
  Fd in(::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 10));
  Fd out(::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 10));
  return peal::run::run_agent(peal::run::FrameStream(std::move(in), std::move(out)), input);
}

}  // namespace

int main(int argc, char** argv) {
  // Where whoever started this had it ignored, nobody would learn how processes end.
  ::signal(SIGCHLD, SIG_DFL);
  try {
    peal::occupy_standard_descriptors();  // PEs talk through pipes to these three
    const peal::run::RunOptions options = peal::run::read_options(argc, argv, environ);
    return options.be_agent ? run_agent(options.input) : peal::run::run_head(options);
  } catch (const peal::run::EarlyExit& answer) {
    std::fputs(answer.text.c_str(), answer.exit_code == 0 ? stdout : stderr);
    if (std::fflush(stdout) == 0) return answer.exit_code;
    fmt::print(stderr, "peal-run: standard output: {}\n", std::strerror(errno));
    return 1;
  } catch (const std::exception& error) {
    fmt::print(stderr, "peal-run: {}\n", error.what());
    return 1;
  }
}
