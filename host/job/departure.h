// SPDX-License-Identifier: Apache-2.0
//
// How a PE's part in a job ends: what it tells the others (Message::Kind::kLeft), or what the
// operating system tells of its process.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace peal {

struct Departure {
  enum class How : uint32_t {
    kFinalized,   // its Runtime has ended
    kExited,      // exit(), or return from main(), with a Runtime; `code` is the exit code
    kQuickExit,   // quick_exit()
    kException,   // has ended its Runtime; `text` is the exception's, where it is known
    kTerminated,  // std::terminate(); the same
    kKilled,      // by signal `code`
  };
  How how = How::kFinalized;
  int code = 0;
  std::string text = {};

  /// Its memory stays until the others have come to their end, too.
  bool in_order() const { return how == How::kFinalized || (how == How::kExited && code == 0); }
};

/// The end of a sentence that begins with the PE: "called exit(3), or returned 3 from main()".
std::string describe(const Departure& departure);

/// What the operating system still knows of a process that has ended: as long as nobody has waited
/// for it. PIDs of this pid namespace.
std::optional<Departure> departure_of_process(int pid);

}  // namespace peal
