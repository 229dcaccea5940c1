// SPDX-License-Identifier: Apache-2.0
//
// What a check answers. Plain values: the table, the JSON and the exit code come from a list of
// them.
#pragma once

#include <string>
#include <vector>

namespace peal::doctor {

enum class Level {
  kOk,
  kSkip,  // does not matter here, or cannot be seen from here
  kWarn,  // peal runs, but less well, or elsewhere than a ConnectX owner would want
  kFail,  // peal will not run as this machine seems meant to
};

/// "ok", "skip", "warn", "fail".
const char* to_string(Level level);

/// One line of the report.
struct Finding {
  std::string check;    // "link"
  std::string subject;  // "mlx5_0/1"; empty: the machine
  Level level = Level::kOk;
  std::string found;
  std::string remedy;  // what to type; never empty for kWarn and kFail
};
using Findings = std::vector<Finding>;

}  // namespace peal::doctor
