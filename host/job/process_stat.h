// SPDX-License-Identifier: Apache-2.0
//
// /proc/PID/stat, of which two fields matter here (proc(5)).
#pragma once

#include <cstdint>
#include <optional>

namespace peal {

struct ProcessStat {
  char state = 0;                  // 'R', 'S', 'T' stopped, 't' traced, 'Z' ended; 0: not known
  std::optional<int> wait_status;  // as waitpid() answers it; of one that has ended, for its user
};

ProcessStat stat_of_process(int64_t pid);

}  // namespace peal
