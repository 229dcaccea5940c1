// SPDX-License-Identifier: Apache-2.0
//
// One PE: a process in a process group of its own, so that signals reach what it has started too,
// and the pipes, or the terminal, that it writes to. It dies with the agent that started it.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/fd.h"

namespace peal::run {

/// What to start.
struct StartCommand {
  std::vector<std::string> argv;
  std::vector<std::string> environment;  // "NAME=VALUE", in addition to what the agent has
  std::string folder;                    // where it runs; empty: where the agent does
  bool terminal = true;                  // standard output is one, so that lines come at once
};

/// Thrown where the program cannot be started; what a shell answers for it.
struct CannotStart {
  int exit_code;  // 127: there is none; 126: it cannot be run
  std::string why;
};

/// The last step of a forked child: runs `argv` in place of this process, with no signal blocked or
/// ignored that a launcher blocks or ignores. Answers errno when it cannot.
int execute(std::vector<std::string> argv);

/// Throws CannotStart unless `command` can be looked up from here.
void check(const StartCommand& command);

/// The whole lines at the front of what a stream brought.
class Lines {
 public:
  /// Adds `bytes`; answers the lines that are whole by now. One that is longer than 1 MiB is not
  /// waited for.
  std::string add(std::string_view bytes);
  /// What is left at the end of the stream, made a line.
  std::string rest();

 private:
  std::string text_;
};

/// One of a PE's two streams, read without waiting.
struct OutputStream {
  Fd fd;  // none: at its end
  Lines lines;

  /// What there is now, in whole lines; with what is left over once the stream has ended.
  std::string read();
};

class LaunchedPe {
 public:
  /// Forks and runs `command` with `input` as standard input; negative: nothing to read.
  LaunchedPe(const StartCommand& command, int input);
  /// Kills what is left of its process group.
  ~LaunchedPe();
  LaunchedPe(const LaunchedPe&) = delete;
  LaunchedPe& operator=(const LaunchedPe&) = delete;

  pid_t pid() const { return pid_; }
  /// Why standard output is a pipe although a terminal was asked for; empty: it is as asked.
  const std::string& no_terminal() const { return no_terminal_; }
  /// Readable when the process has ended.
  int process() const { return process_.get(); }
  /// Its wait status, once it has ended. The process stays a zombie, so that the number of its
  /// group is nobody else's.
  std::optional<int> status();

  /// Sends the signal to the whole process group.
  void signal(int number);

  OutputStream output;
  OutputStream errors;

 private:
  [[noreturn]] void become(const StartCommand& command, int input, int out, int err, int report);

  pid_t pid_ = -1;
  Fd process_;
  std::optional<int> status_;
  std::string no_terminal_;
};

}  // namespace peal::run
