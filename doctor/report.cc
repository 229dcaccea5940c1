// SPDX-License-Identifier: Apache-2.0
//
// The table's columns are as wide as they must be; lines may be longer than a terminal.
#include "doctor/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace peal::doctor {
namespace {

constexpr Level kLevels[] = {Level::kOk, Level::kSkip, Level::kWarn, Level::kFail};

std::string title(const Finding& finding) {
  return finding.subject.empty() ? finding.check : finding.check + " " + finding.subject;
}

long count(const Findings& findings, Level level) {
  return std::ranges::count(findings, level, &Finding::level);
}

}  // namespace

const char* to_string(Level level) {
  constexpr const char* kNames[] = {"ok", "skip", "warn", "fail"};
  return kNames[static_cast<int>(level)];
}

std::string table(const Findings& findings) {
  size_t width = 0;
  for (const Finding& finding : findings) width = std::max(width, title(finding).size());
  std::string text;
  for (const Finding& finding : findings) {
    text += fmt::format("{:<5} {:<{}}  {}\n", to_string(finding.level), title(finding), width,
                        finding.found);
    if (!finding.remedy.empty()) {
      text += fmt::format("{:<5} {:<{}}  -> {}\n", "", "", width, finding.remedy);
    }
  }
  for (const Level level : kLevels) {
    text += fmt::format("{}{} {}", level == Level::kOk ? "" : ", ", count(findings, level),
                        to_string(level));
  }
  return text + "\n";
}

std::string json(const Findings& findings) {
  nlohmann::ordered_json all{{"findings", nlohmann::ordered_json::array()}};
  for (const Finding& finding : findings) {
    all["findings"].push_back({{"check", finding.check},
                               {"subject", finding.subject},
                               {"level", to_string(finding.level)},
                               {"found", finding.found},
                               {"remedy", finding.remedy}});
  }
  for (const Level level : kLevels) all[to_string(level)] = count(findings, level);
  // A firmware's text may be no UTF-8.
  return all.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

int exit_code(const Findings& findings) { return count(findings, Level::kFail) > 0 ? 1 : 0; }

}  // namespace peal::doctor
