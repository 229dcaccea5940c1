// SPDX-License-Identifier: Apache-2.0
//
// What the lines of all fault plans share, a NIC's and a link's: each word stands once, a seed on a
// line of its own, faults have names.
#pragma once

#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>

#include "base/words.h"

namespace peal::words {

/// One line of a plan. Errors are std::invalid_argument, with the line and the word.
class PlanLine {
 public:
  static constexpr uint64_t kLongestMs = 86'400'000;  // a day

  PlanLine(uint64_t number, std::string_view text) : number_(number), text_(text) {}

  std::string_view text() const { return text_; }

  /// Calls `take(word, name, value)` for each word but a seed, which goes to *seed. Answers whether
  /// the line has a fault to tell of.
  template <class Take>
  bool read(uint64_t* seed, Take take) const {
    std::optional<uint64_t> found;
    uint32_t count = 0;
    for (std::string_view rest = text_; !rest.empty();) {
      const std::string_view word = take_until(rest, " \t\r");
      if (word.empty()) continue;
      ++count;
      std::string_view value = word;
      const std::string_view name = take_until(value, "=");
      if (name == "seed") {
        once(word, found, within(word, value, 0, ~uint64_t{0}));
      } else {
        take(word, name, value);
      }
    }
    if (!found) return count != 0;
    if (count != 1) fail(text_, "seed=N stands on a line of its own");
    *seed = *found;
    return false;
  }

  [[noreturn]] void fail(std::string_view word, const std::string& allowed) const {
    words::fail(number_, word, allowed);
  }

  void once(std::string_view word, std::optional<uint64_t>& place, uint64_t value) const {
    if (place) fail(word, "this word stands twice in its line");
    place = value;
  }

  uint64_t within(std::string_view word, std::string_view value, uint64_t least, uint64_t most,
                  const char* also = "") const {
    return words::within(number_, word, value, least, most, also);
  }

  /// A number that is counted from 1; '*' means each and answers 0.
  uint64_t each_or(std::string_view word, std::string_view value, uint64_t most) const {
    return value == "*" ? 0 : within(word, value, 1, most, ", or *");
  }

  /// The row of that name; null if there is none.
  template <class Rows>
  static auto find(const Rows& rows, std::string_view name) -> decltype(std::begin(rows)) {
    for (const auto& row : rows) {
      if (row.name == name) return &row;
    }
    return nullptr;
  }

  /// "a, b, c".
  template <class Rows>
  static std::string names_of(const Rows& rows) {
    std::string names;
    for (const auto& row : rows) names += (names.empty() ? "" : ", ") + std::string(row.name);
    return names;
  }

 private:
  uint64_t number_;
  std::string_view text_;
};

}  // namespace peal::words
