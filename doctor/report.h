// SPDX-License-Identifier: Apache-2.0
//
// Findings for people, for programs, and for the shell.
#pragma once

#include <string>

#include "doctor/finding.h"

namespace peal::doctor {

/// One line a finding, its remedy below it; the last line counts.
std::string table(const Findings& findings);

/// {"findings": [{"check", "subject", "level", "found", "remedy"}, ...], "ok": 3, "skip": 0,
/// "warn": 1, "fail": 0}, indented.
std::string json(const Findings& findings);

/// 1 if anything fails, else 0.
int exit_code(const Findings& findings);

}  // namespace peal::doctor
