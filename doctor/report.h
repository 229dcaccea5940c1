// SPDX-License-Identifier: Apache-2.0
//
// What checks find, as plain values; and those for people, for programs, and for the shell.
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

/// What a check answers: one line of the report.
struct Finding {
  std::string check;    // "link"
  std::string subject;  // "mlx5_0/1"; empty: the machine
  Level level = Level::kOk;
  std::string found;
  std::string remedy = {};  // what to type; never empty for kWarn and kFail
};
using Findings = std::vector<Finding>;

/// One line a finding, its remedy below it; the last line counts.
std::string table(const Findings& findings);

/// {"findings": [{"check", "subject", "level", "found", "remedy"}, ...], "ok": 3, "skip": 0,
/// "warn": 1, "fail": 0}, indented.
std::string json(const Findings& findings);

/// 1 if anything fails, else 0.
int exit_code(const Findings& findings);

}  // namespace peal::doctor
