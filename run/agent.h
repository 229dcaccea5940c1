// SPDX-License-Identifier: Apache-2.0
//
// An agent starts the PEs of one host, hands on what they write, says how they end, and ends them
// when it is told to, or when its connection to the head closes. It never outlives them, nor they
// it.
#pragma once

#include <chrono>
#include <string>

#include "run/frame.h"
#include "run/pe.h"

namespace peal::run {

/// What an agent is to do: PEs [first, first + count) of `size`.
struct PeRange {
  int first = 0;
  int count = 0;
  int size = 0;
  std::chrono::milliseconds grace{0};  // from SIGTERM to SIGKILL
  int restarts = 0;                    // of each PE that fails
  std::string interface;               // where PE 0 listens (find_address)
  StartCommand command;

  std::string to_bytes() const;
  static PeRange from_bytes(const std::string& bytes);
};

/// All of an agent's life. PE 0 reads from `input`; negative: nothing. Returns its exit code.
int run_agent(FrameStream channel, int input);

}  // namespace peal::run
