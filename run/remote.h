// SPDX-License-Identifier: Apache-2.0
//
// An agent from the head's side: the process that leads to it (itself on this machine, a remote
// shell's for another), the connection, and how far it has come.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/fd.h"
#include "run/frame.h"
#include "run/options.h"
#include "run/pe.h"

namespace peal::run {

class RemoteAgent {
 public:
  enum class State { kStarting, kGreeted, kReady, kGone };

  /// Starts the agent of `host`; its first PE is number `first`.
  RemoteAgent(const RunOptions& options, const Host& host, int first);
  RemoteAgent(RemoteAgent&&) = default;

  const Host& host() const { return host_; }
  /// "host a", or "this machine".
  std::string where() const;
  int first() const { return first_; }

  /// Lets it go on where somebody has stopped it: it is to hear something.
  void wake() const;
  /// Ends it without a word: its PEs end as after a broken connection.
  void cut();
  /// How the process ended that leads to the agent, "exited with code 255"; waits a little for
  /// that.
  std::string end();

  FrameStream channel;
  OutputStream complaints;  // what the agent or the remote shell itself writes to stderr
  State state = State::kStarting;
  int living = 0;  // PEs that were started and have not been reported as ended

 private:
  struct Child {
    pid_t pid;
    Fd process;
    Fd connection;
    Fd errors;
  };
  RemoteAgent(Child child, const Host& host, int first);
  static Child spawn(const std::vector<std::string>& argv, bool with_input);
  static std::vector<std::string> command_for(const RunOptions& options, const Host& host,
                                              int first);

  Host host_;
  int first_;
  pid_t pid_;
  Fd process_;
};

/// What a shell makes of it: the code, or 128 + the signal.
int exit_code_of(int wait_status);

}  // namespace peal::run
