// SPDX-License-Identifier: Apache-2.0
//
// Fault plans: any text, and where it is a plan, the engine under it. A refusal names its line; a
// plan's rules are within the limits that docs/faults.md names.
#include <memory>
#include <stdexcept>
#include <string>

#include "tests/fuzz/engine_run.h"

namespace peal::fuzz {
namespace {

constexpr uint64_t kDayNs = 86'400'000'000'000;

void check(const FaultPlan& plan) {
  require(plan.count <= FaultPlan::kMaxRules);
  for (uint32_t i = 0; i < plan.count; ++i) {
    const FaultRule& rule = plan.rule[i];
    require(rule.kind > FaultKind::kNone && rule.kind <= FaultKind::kKill);
    require((rule.kind == FaultKind::kSyndrome) == (rule.syndrome != 0));
    require(rule.qpn <= 0xffffff && rule.at <= 0xffffffff && rule.times <= 1'000'000);
    require(rule.ns <= kDayNs && rule.after_ns <= kDayNs && rule.chance <= FaultRule::kAlways);
    require(rule.trigger == FaultRule::Trigger::kTime || rule.after_ns == 0);
  }
}

/// The text of the plan: up to the first zero byte.
std::string text_of(Input& in) {
  std::string text;
  for (char c = static_cast<char>(in.byte()); c != 0; c = static_cast<char>(in.byte())) text += c;
  return text;
}

}  // namespace
}  // namespace peal::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  using namespace peal::fuzz;
  Input input(data, bytes);
  const auto faults = std::make_unique<peal::softnic::Faults>();
  try {
    faults->begin(peal::softnic::parse_fault_plan(text_of(input)));
  } catch (const std::invalid_argument& error) {
    require(std::string(error.what()).starts_with("line "));
    return 0;
  }
  check(faults->plan);
  EngineRun(input, faults.get()).go();
  return 0;
}
