// SPDX-License-Identifier: Apache-2.0
//
// Text -> FaultPlan. A line is a list of name=value words; which names a fault takes is one row of
// kFaults. What cannot be right is an error, never a default.
#include "softnic/engine/fault_plan.h"

#include <optional>
#include <string>

#include "base/plan_line.h"

namespace peal::softnic {

namespace {

using std::string_view;
using words::number;
using words::take_until;

enum class Takes : uint8_t { kNo, kMay, kMust };

/// What the line of a fault may say.
struct Known {
  string_view name;
  FaultKind kind;
  bool by_doorbell, by_wqe, by_time;
  Takes ms;
  Takes times;
};

constexpr Known kFaults[] = {
    {"drop", FaultKind::kDropDoorbell, true, false, false, Takes::kNo, Takes::kNo},
    {"delay", FaultKind::kDelayDoorbell, true, false, false, Takes::kMust, Takes::kNo},
    {"duplicate", FaultKind::kDuplicateDoorbell, true, false, false, Takes::kNo, Takes::kNo},
    {"reorder", FaultKind::kReorderDoorbell, true, false, false, Takes::kMust, Takes::kNo},
    {"stall", FaultKind::kStall, false, true, false, Takes::kMay, Takes::kNo},
    {"lose_ack", FaultKind::kLoseAck, false, true, false, Takes::kNo, Takes::kMay},
    {"lose_request", FaultKind::kLoseRequest, false, true, false, Takes::kNo, Takes::kMay},
    {"rnr", FaultKind::kNotReady, false, true, false, Takes::kNo, Takes::kMay},
    {"syndrome", FaultKind::kSyndrome, false, true, false, Takes::kNo, Takes::kNo},
    {"flush_storm", FaultKind::kFlushStorm, false, true, false, Takes::kNo, Takes::kNo},
    {"late_cqe", FaultKind::kLateCqe, false, true, false, Takes::kMust, Takes::kNo},
    {"late_data", FaultKind::kLateData, false, true, false, Takes::kMust, Takes::kNo},
    {"port_down", FaultKind::kPortDown, false, true, true, Takes::kMay, Takes::kNo},
    {"nic_stop", FaultKind::kNicStop, false, true, true, Takes::kNo, Takes::kNo},
    {"kill", FaultKind::kKill, false, true, true, Takes::kNo, Takes::kNo},
};

/// One line of the plan, and everything that is said about its errors.
class Line {
 public:
  Line(uint64_t number, string_view text) : line_(number, text) {}

  /// Adds what the line says to the plan.
  void read(FaultPlan* plan) {
    const auto taken = [this](string_view word, string_view name, string_view value) {
      take(word, name, value);
    };
    if (!line_.read(&plan->seed, taken)) return;
    check(line_.text());
    if (plan->count == FaultPlan::kMaxRules) fail(line_.text(), "a plan has at most 64 faults");
    plan->rule[plan->count++] = rule_;
  }

 private:
  [[noreturn]] void fail(string_view word, const std::string& allowed) const {
    line_.fail(word, allowed);
  }

  void take(string_view word, string_view name, string_view value) {
    constexpr uint64_t kLongestMs = words::PlanLine::kLongestMs;
    const auto number = [&](std::optional<uint64_t>& place, uint64_t least, uint64_t most) {
      line_.once(word, place, line_.within(word, value, least, most));
    };
    const auto each_or = [&](std::optional<uint64_t>& place, uint64_t most) {
      line_.once(word, place, line_.each_or(word, value, most));
    };
    if (name == "qp") return each_or(qp_, 0xffffff);
    if (name == "doorbell") return each_or(doorbell_, ~0u);
    if (name == "wqe") return each_or(wqe_, ~0u);
    if (name == "after_ms") return number(after_, 0, kLongestMs);
    if (name == "ms") return number(ms_, 1, kLongestMs);
    if (name == "times") return number(times_, 1, 1'000'000);
    if (name == "percent") return number(percent_, 1, 100);
    if (name == "fault") return take_fault(word, value);
    fail(word, "a word is seed=, qp=, doorbell=, wqe=, after_ms=, percent=, fault=, ms= or times=");
  }

  void take_fault(string_view word, string_view value) {
    if (fault_ != nullptr) fail(word, "a line has one fault");
    fault_ = line_.find(kFaults, take_until(value, ":"));
    if (fault_ == nullptr) fail(word, "a fault is one of " + line_.names_of(kFaults));
    if (fault_->kind != FaultKind::kSyndrome) {
      if (word.find(':') != string_view::npos) fail(word, "only syndrome has a value");
      return;
    }
    const auto syndrome = number(value);
    if (!syndrome || *syndrome < 1 || *syndrome > 0xff) {
      fail(word, "syndrome:N, N from 0x01 to 0xff");
    }
    rule_.syndrome = static_cast<uint8_t>(*syndrome);
  }

  /// The words fit the fault and each other.
  void check(string_view whole) {
    if (fault_ == nullptr) fail(whole, "a line names its fault, fault=NAME");
    const bool fits = (doorbell_ && fault_->by_doorbell) || (wqe_ && fault_->by_wqe) ||
                      (after_ && fault_->by_time);
    if (!fits || int{doorbell_.has_value()} + wqe_.has_value() + after_.has_value() != 1) {
      std::string ways;
      if (fault_->by_doorbell) ways = "doorbell=";
      if (fault_->by_wqe) ways = "wqe=";
      if (fault_->by_time) ways += " or after_ms=";
      fail(whole, "this fault is placed by " + ways + " and nothing else");
    }
    if (after_ && (qp_ || percent_)) fail(whole, "after_ms= goes without qp= and percent=");
    check(whole, "ms", ms_.has_value(), fault_->ms);
    check(whole, "times", times_.has_value(), fault_->times);
    using Trigger = FaultRule::Trigger;
    rule_.kind = fault_->kind;
    rule_.trigger = doorbell_ ? Trigger::kDoorbell : wqe_ ? Trigger::kWqe : Trigger::kTime;
    rule_.qpn = static_cast<uint32_t>(qp_.value_or(0));
    rule_.at = doorbell_ ? *doorbell_ : wqe_.value_or(0);
    rule_.after_ns = after_.value_or(0) * 1'000'000;
    if (percent_) rule_.chance = FaultRule::kAlways * *percent_ / 100;
    rule_.ns = ms_.value_or(0) * 1'000'000;
    rule_.times = static_cast<uint32_t>(times_.value_or(0));
  }

  void check(string_view whole, const char* name, bool given, Takes takes) const {
    if (given && takes == Takes::kNo) fail(whole, std::string("this fault takes no ") + name + "=");
    if (!given && takes == Takes::kMust) fail(whole, std::string("this fault needs ") + name + "=");
  }

  words::PlanLine line_;
  const Known* fault_ = nullptr;
  std::optional<uint64_t> qp_, doorbell_, wqe_, after_, ms_, times_, percent_;
  FaultRule rule_;
};

}  // namespace

FaultPlan parse_fault_plan(string_view text) {
  FaultPlan plan;
  words::for_each_line(text, "a plan",
                       [&plan](uint64_t line, string_view part) { Line(line, part).read(&plan); });
  return plan;
}

}  // namespace peal::softnic
