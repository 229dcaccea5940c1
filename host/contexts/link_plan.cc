// SPDX-License-Identifier: Apache-2.0
//
// Text -> LinkFaults, in the manner of the software NIC's plans (softnic/engine/fault_plan.cc): a
// line is a list of name=value words. What cannot be right is an error, never a default.
#include "host/contexts/link_plan.h"

#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <stdexcept>
#include <string>

#include "base/plan_line.h"

namespace peal {
namespace {

using std::string_view;

/// How soon a process ends whose kernel has met fault=kill.
constexpr std::chrono::milliseconds kKillPeriod{1};

enum class Takes : uint8_t { kNo, kMay, kMust };

struct Known {
  string_view name;
  LinkFault fault;
  string_view by;  // the word that places it
  Takes ms;
};

constexpr Known kFaultWords[] = {{"stall", LinkFault::kStall, "op=", Takes::kMay},
                                 {"delay", LinkFault::kLateSignal, "signal=", Takes::kMust},
                                 {"link_down", LinkFault::kLinkDown, "op=", Takes::kMay},
                                 {"kill", LinkFault::kKill, "op=", Takes::kNo}};

/// What a NIC can do and a link cannot, and why.
struct Foreign {
  string_view name;
  const char* why;
};
constexpr Foreign kForeign[] = {
    {"lose_request", "a link loses no store; fault=link_down ends it"},
    {"lose_ack", "a link loses no store and no answer; fault=link_down ends it"},
    {"drop", "loads and stores have no doorbell; fault=stall holds an operation back"},
    {"duplicate", "loads and stores have no doorbell"},
    {"reorder", "loads and stores have no doorbell; fault=stall holds an operation back"},
    {"late_cqe", "loads and stores have no completion; fault=delay makes a signal late"},
    {"rnr", "loads and stores ask no receiver"},
    {"syndrome", "loads and stores report no error; fault=link_down ends a link"},
    {"flush_storm", "loads and stores report no error; fault=link_down ends a link"},
    {"port_down", "there is no port; fault=link_down ends a link"},
    {"nic_stop", "there is no NIC; fault=stall stops an operation"}};

class LinkLine {
 public:
  LinkLine(uint64_t number, string_view text, const LinkEnds& ends)
      : line_(number, text), ends_(ends) {}

  void read(LinkFaults* plan) {
    const auto taken = [this](string_view word, string_view name, string_view value) {
      take(word, name, value);
    };
    if (!line_.read(&plan->seed, taken)) return;
    const LinkRule rule = checked(line_.text());
    if (on_ && *on_ != static_cast<uint64_t>(ends_.pe)) return;
    if (plan->count == LinkFaults::kMaxRules) {
      fail(line_.text(), "a plan has at most 16 faults for a PE");
    }
    plan->rule[plan->count++] = rule;
  }

 private:
  [[noreturn]] void fail(string_view word, const std::string& allowed) const {
    line_.fail(word, allowed);
  }

  void take(string_view word, string_view name, string_view value) {
    const uint64_t last_pe = ends_.mapped.size() - 1;
    const auto number = [&](std::optional<uint64_t>& place, uint64_t least, uint64_t most,
                            const char* also = "") {
      line_.once(word, place, line_.within(word, value, least, most, also));
    };
    const auto each_or = [&](std::optional<uint64_t>& place) {
      line_.once(word, place, line_.each_or(word, value, ~uint32_t{0}));
    };
    if (name == "on") return number(on_, 0, last_pe);
    if (name == "pe") {
      if (value != "*") return number(pe_, 0, last_pe, ", or *");
      return;
    }
    if (name == "op") return each_or(op_);
    if (name == "signal") return each_or(signal_);
    if (name == "ms") return number(ms_, 1, words::PlanLine::kLongestMs);
    if (name == "percent") return number(percent_, 1, 100);
    if (name == "fault") return take_fault(word, value);
    fail(word,
         "a word is seed=, on=, pe=, op=, signal=, percent=, fault= or ms=; wqe=, doorbell=, "
         "qp=, after_ms= and times= are of a NIC's plan (PEAL_SOFTNIC_FAULTS)");
  }

  void take_fault(string_view word, string_view name) {
    if (fault_ != nullptr) fail(word, "a line has one fault");
    fault_ = line_.find(kFaultWords, name);
    if (fault_ != nullptr) return;
    const string_view kind = name.substr(0, name.find(':'));
    if (const Foreign* const foreign = line_.find(kForeign, kind)) {
      fail(word, std::string("a NIC can do this (PEAL_SOFTNIC_FAULTS), mapped memory cannot: ") +
                     foreign->why);
    }
    fail(word, "a fault is one of " + line_.names_of(kFaultWords));
  }

  /// The words fit the fault and each other, and this PE.
  LinkRule checked(string_view whole) const {
    if (fault_ == nullptr) fail(whole, "a line names its fault, fault=NAME");
    const bool fits = fault_->by == "op=" ? op_ && !signal_ : signal_ && !op_;
    if (!fits) {
      fail(whole, "this fault is placed by " + std::string(fault_->by) + " and nothing else");
    }
    if (ms_ && fault_->ms == Takes::kNo) fail(whole, "this fault takes no ms=");
    if (!ms_ && fault_->ms == Takes::kMust) fail(whole, "this fault needs ms=");
    const bool mine = !on_ || *on_ == static_cast<uint64_t>(ends_.pe);
    if (pe_ && mine && !ends_.mapped[*pe_]) {
      fail(whole, "PE " + std::to_string(*pe_) +
                      " is reached by a NIC, whose faults are PEAL_SOFTNIC_FAULTS'; "
                      "PEAL_TRANSPORT=p2p maps it where that can be");
    }
    return {.fault = fault_->fault,
            .pe = pe_ ? static_cast<int32_t>(*pe_) : -1,
            .at = op_ ? *op_ : *signal_,
            .chance = percent_ ? LinkRule::kAlways * *percent_ / 100 : LinkRule::kAlways,
            .ns = ms_.value_or(0) * 1'000'000};
  }

  words::PlanLine line_;
  const LinkEnds& ends_;
  const Known* fault_ = nullptr;
  std::optional<uint64_t> on_, pe_, op_, signal_, ms_, percent_;
};

}  // namespace

LinkFaults parse_link_faults(string_view text, const LinkEnds& ends) {
  LinkFaults plan{};
  words::for_each_line(text, "a plan", [&](uint64_t line, string_view part) {
    LinkLine(line, part, ends).read(&plan);
  });
  return plan;
}

LinkFaults LinkPlan::read(string_view text) const {
  bool others = false;
  for (size_t pe = 0; pe < ends_.mapped.size(); ++pe) {
    others = others || (ends_.mapped[pe] && pe != static_cast<size_t>(ends_.pe));
  }
  if (!others) {
    throw std::invalid_argument(
        "no other PE is reached by loads and stores here: PEAL_TRANSPORT=p2p has them mapped where "
        "that can be, PEAL_SOFTNIC_FAULTS is the plan of the software NIC");
  }
  return parse_link_faults(text, ends_);
}

void LinkPlan::set(string_view text, ErrorCode code) {
  LinkFaults plan;
  try {
    plan = read(text);
  } catch (const std::invalid_argument& wrong) {
    fail(code, "plan of faults towards mapped peers (PEAL_P2P_FAULTS): {}", wrong.what());
  }
  watch(false);
  tables_.set_faults(plan);
  watch(std::any_of(plan.rule, plan.rule + plan.count,
                    [](const LinkRule& rule) { return rule.fault == LinkFault::kKill; }));
}

/// Has this process killed as soon as a lane asks for it, or no more.
void LinkPlan::watch(bool kills) {
  if (thread_.joinable()) {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  ending_ = false;
  if (!kills) return;
  thread_ = std::thread([this] {
    ::prctl(PR_SET_NAME, "peal-faults");
    std::unique_lock lock(mutex_);
    while (!changed_.wait_for(lock, kKillPeriod, [this] { return ending_; })) {
      if (tables_.killed()) ::kill(getpid(), SIGKILL);
    }
  });
}

}  // namespace peal
