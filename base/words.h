// SPDX-License-Identifier: Apache-2.0
//
// What little languages share (fault plans, presentations of a NIC): lines end at a line end or
// ';',
// '#' starts a comment, a line is words, a word is name=value. Errors name the line, the word and
// what is accepted.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

namespace peal::words {

inline constexpr uint32_t kMaxTextBytes = 65536;

/// Takes what comes before any of `ends` off the front of `text`.
inline std::string_view take_until(std::string_view& text, std::string_view ends) {
  const size_t end = std::min(text.find_first_of(ends), text.size());
  const std::string_view front = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return front;
}

/// A whole number, decimal or 0x....
inline std::optional<uint64_t> number(std::string_view text) {
  const bool hex = text.starts_with("0x");
  if (hex) text.remove_prefix(2);
  uint64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value, hex ? 16 : 10);
  return error == std::errc() && stop == end ? std::optional(value) : std::nullopt;
}

/// What turns a thing on or off, in any of the ways that people write it; nothing else.
inline std::optional<bool> switch_of(std::string_view text) {
  for (const std::string_view on : {"on", "1", "yes", "true"}) {
    if (text == on) return true;
  }
  for (const std::string_view off : {"off", "0", "no", "false"}) {
    if (text == off) return false;
  }
  return std::nullopt;
}
inline constexpr const char* kSwitches = "on or off (or 1, yes, true; 0, no, false)";

/// Throws std::invalid_argument: line, word (its first 80 bytes, printable), what is accepted.
[[noreturn]] inline void fail(uint64_t line, std::string_view word, const std::string& allowed) {
  std::string shown(word.substr(0, 80));
  for (char& c : shown) {
    if (c < ' ' || c > '~') c = '?';
  }
  throw std::invalid_argument("line " + std::to_string(line) + ": \"" + shown + "\": " + allowed);
}

/// The whole number that `value` of that word is. Throws unless it is from `least` to `most`;
/// `also` says what else would have been accepted.
inline uint64_t within(uint64_t line, std::string_view word, std::string_view value, uint64_t least,
                       uint64_t most, const char* also = "") {
  const auto n = number(value);
  if (n && *n >= least && *n <= most) return *n;
  fail(line, word,
       "a whole number from " + std::to_string(least) + " to " + std::to_string(most) + also);
}

/// Calls `read(number of the line, its text)` for each part between line ends and ';'. `what` names
/// the text in the error that it is too long.
template <class Read>
void for_each_line(std::string_view text, const char* what, Read read) {
  if (text.size() > kMaxTextBytes) {
    throw std::invalid_argument(std::string("line 1: ") + what + " has at most 65536 bytes");
  }
  for (uint64_t line = 1; !text.empty(); ++line) {
    std::string_view rest = take_until(text, "\n");
    rest = take_until(rest, "#");
    while (!rest.empty()) read(line, take_until(rest, ";"));
  }
}

}  // namespace peal::words
