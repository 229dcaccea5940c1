// SPDX-License-Identifier: Apache-2.0
//
// What a simulation leaves to chance: who runs next, for how long, which of its values a load
// answers. Each kind of question has a default answer, 0 or false: nobody is interrupted, a load
// answers the newest value. So a run can be repeated with the default in place of most answers,
// until those are left that make it fail.
//
// An answer depends on the seed, on the kind of the question, on the agent that it is about, and on
// how many of that kind there were about that agent: so the answer to one question changes little
// of what is answered to others.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "simt/simulation/random.h"

namespace peal::simt {

enum class Question : uint8_t { kInterrupt, kNext, kSleep, kValue };

class Decisions {
 public:
  explicit Decisions(uint64_t seed) : seed_(seed) {}

  /// From now on only these questions are answered by the seed, and all others by the default:
  /// numbers of made().
  void keep_only(std::vector<uint64_t> numbers) {
    std::ranges::sort(numbers);
    kept_ = std::move(numbers);
  }

  /// 0 .. bound - 1.
  uint32_t below(Question question, uint64_t agent, uint32_t bound) {
    const uint64_t number = next_number(question, agent);
    const uint32_t answer = draw(number).below(bound);
    return take(number, answer != 0) ? answer : 0;
  }
  /// True in `part` of `whole` cases.
  bool chance(Question question, uint64_t agent, uint32_t part, uint32_t whole) {
    const uint64_t number = next_number(question, agent);
    return take(number, draw(number).below(whole) < part);
  }

  /// The questions so far whose answer was not the default.
  const std::vector<uint64_t>& made() const { return made_; }

 private:
  static constexpr unsigned kQuestions = 4;

  // Kind, agent and count in one number.
  uint64_t next_number(Question question, uint64_t agent) {
    const uint64_t kind = agent * kQuestions + static_cast<uint64_t>(question);
    if (kind >= asked_.size()) asked_.resize(kind + 1, 0);
    return kind << 40 | asked_[kind]++;
  }
  // Twice through splitmix64: numbers of two agents are far apart in the first's sequence.
  Random draw(uint64_t number) const { return Random(Random(seed_ ^ number).next()); }

  bool take(uint64_t number, bool differs) {
    if (!differs) return false;
    if (kept_ && !std::ranges::binary_search(*kept_, number)) return false;
    made_.push_back(number);
    return true;
  }

  const uint64_t seed_;
  std::vector<uint64_t> asked_;  // so far, by kind and agent
  std::optional<std::vector<uint64_t>> kept_;
  std::vector<uint64_t> made_;
};

}  // namespace peal::simt
