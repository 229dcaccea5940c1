// SPDX-License-Identifier: Apache-2.0
//
// Numbers of PEs as text for people.
#pragma once

#include <cstddef>
#include <string>

namespace peal {

/// "PE 3", "PEs 1-3".
inline std::string name_pes(size_t first, size_t last) {
  if (first == last) return "PE " + std::to_string(first);
  return "PEs " + std::to_string(first) + "-" + std::to_string(last);
}

/// Calls body(first, last) for each longest run of neighbours in 0 .. count - 1 that are alike.
template <class Alike, class Body>
void for_each_run(size_t count, const Alike& alike, const Body& body) {
  for (size_t first = 0, last = 0; first < count; first = ++last) {
    while (last + 1 < count && alike(last, last + 1)) ++last;
    body(first, last);
  }
}

/// Ascending numbers: "1-3, 7"; past 16 runs of neighbours "1, 3, ... (40 in all)".
template <class Numbers>
std::string ranges(const Numbers& numbers) {
  constexpr int kShown = 16;
  std::string text;
  int runs = 0;
  const auto follow = [&](size_t a, size_t b) { return numbers[b] == numbers[a] + 1; };
  for_each_run(numbers.size(), follow, [&](size_t first, size_t last) {
    if (++runs > kShown) return;
    text += (text.empty() ? "" : ", ") + std::to_string(numbers[first]);
    if (first != last) text += "-" + std::to_string(numbers[last]);
  });
  if (runs > kShown) text += ", ... (" + std::to_string(numbers.size()) + " in all)";
  return text;
}

}  // namespace peal
