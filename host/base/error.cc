// SPDX-License-Identifier: Apache-2.0
#include "host/base/error.h"

#include <cerrno>
#include <iterator>
#include <system_error>

namespace peal {

const char* to_string(ErrorCode code) {
  static constexpr const char* kNames[] = {"invalid argument", "out of memory", "unsupported",
                                           "configuration",    "system",        "timeout",
                                           "peer lost",        "internal"};
  const auto number = static_cast<size_t>(code);
  return number < std::size(kNames) ? kNames[number] : "unknown error code";
}

void fail_errno(int error, const std::string& call) {
  const char* const remedy =
      error == EMFILE ? "; raise ulimit -n (docs/running.md says what a PE needs)" : "";
  // generic_category, not strerror: its text is thread-safe.
  throw Error(ErrorCode::kSystem, call + ": " + std::generic_category().message(error) + remedy);
}

std::string renamed(std::string text, std::span<const Renamed> names) {
  for (const Renamed& name : names) {
    for (size_t at = 0; (at = text.find(name.from, at)) != std::string::npos;
         at += name.to.size()) {
      text.replace(at, name.from.size(), name.to);
    }
  }
  return text;
}

}  // namespace peal
