// SPDX-License-Identifier: Apache-2.0
//
// How set-up code throws: exception.h with texts formatted in place.
#pragma once

#include <fmt/format.h>

#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "host/base/exception.h"

namespace peal {

/// Throws Error with a formatted message: fail(ErrorCode::kTimeout, "rank {} did not ...", rank).
template <class... Args>
[[noreturn]] void fail(ErrorCode code, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(code, fmt::format(format, std::forward<Args>(args)...));
}

/// Throws kSystem for a failed POSIX-style call: "call: strerror(error)".
[[noreturn]] void fail_errno(int error, const std::string& call);

/// A name of the C++ API in a sentence, and what another API calls it.
struct Renamed {
  std::string_view from;
  std::string_view to;
};
/// `text` with the names of another API.
std::string renamed(std::string text, std::span<const Renamed> names);

}  // namespace peal
