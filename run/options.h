// SPDX-License-Identifier: Apache-2.0
//
// What peal-run was asked for.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace peal::run {

/// Where PEs run. An empty name is this machine; so is "localhost".
struct Host {
  std::string name;
  int pes = 0;

  bool remote() const { return !name.empty() && name != "localhost"; }
  bool operator==(const Host&) const = default;
};

struct RunOptions {
  std::vector<Host> hosts;             // in the order of PEs; their sum is the size of the job
  std::vector<std::string> argv;       // the program and its arguments
  std::vector<std::string> shell;      // starts a command on another machine
  std::string agent;                   // path of peal-run there
  std::string interface;               // where PE 0 listens; empty: found
  std::vector<std::string> exports;    // "NAME=VALUE"
  std::string folder;                  // where PEs run; empty: where peal-run does
  std::chrono::milliseconds grace{0};  // from SIGTERM to SIGKILL
  bool prefix = true;
  bool terminal = true;  // standard output of a PE is one
  bool keep_going = false;
  int restarts = 0;       // of each PE that fails
  bool be_agent = false;  // started by another peal-run; what follows is for that
  int input = -1;         // descriptor that PE 0 reads

  int size() const;
};

/// What ends peal-run before it starts anything: help (code 0) or a mistake (code 2), with a text.
struct EarlyExit {
  int exit_code;
  std::string text;
};

/// Reads the command line and, for what is exported, `environment`. Throws EarlyExit.
RunOptions read_options(int argc, char** argv, char** environment);

/// The head of peal-run (head.cc): starts an agent for each host, has them start the PEs together,
/// prints what these write, hands signals on, and ends all when one fails. Answers the exit code.
int run_head(const RunOptions& options);

}  // namespace peal::run
