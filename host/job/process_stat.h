// SPDX-License-Identifier: Apache-2.0
//
// What /proc/PID/stat tells of a process (proc(5)): where it has a pidfd of nobody, how it ended,
// and whether it stands still, by SIGSTOP or a debugger.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "host/base/place.h"

namespace peal {

/// When a process was born, in ticks since the machine's start: with its number, which process.
using Birth = uint64_t;

struct ProcessStat {
  char state = 0;                  // 'R', 'S', 'T' stopped, 't' traced, 'Z' ended; 0: not known
  std::optional<Birth> birth;      // none where /proc does not tell
  std::optional<int> wait_status;  // as waitpid() answers it; of one that has ended, for its user
};

ProcessStat stat_of_process(int64_t pid);

/// Whether the process of that number and birth has ended, reaped or not. Without a birth another
/// one that got its number is taken for it.
bool has_ended(int64_t pid, std::optional<Birth> birth);

/// "PE 1 (process 4711) is stopped: kill -CONT 4711 lets it go on", for every one of `pes` of
/// which that is so now; "" for none. `places` by PE; those that PE `here` does not see are not
/// looked at.
std::string stopped_pes(std::span<const Place> places, int here, const std::vector<int>& pes);

}  // namespace peal
