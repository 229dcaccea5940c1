// SPDX-License-Identifier: Apache-2.0
//
// The error that a call ends with, and what is expected of it.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "base/patience.h"
#include "base/run_clock.h"
#include "host/base/error.h"

namespace peal {

/// The error `call` ends with; its text is "no error" if it does not throw.
template <class Call>
Error error_of(Call&& call) {
  try {
    call();
  } catch (const Error& error) {
    return error;
  }
  return {ErrorCode::kInternal, "no error"};
}

/// What `attempt` ends with, which is to miss a deadline in one way: where a machine is busy
/// another rank may be late, too, and is named beside the one that never comes. `attempt(times)`
/// has so many times the time, 1, 4 or 16, until `as_wanted` holds.
template <class Attempt, class AsWanted>
auto with_more_time(const Attempt& attempt, const AsWanted& as_wanted) {
  for (int times = 1;; times *= 4) {
    auto outcome = attempt(times);
    if (times == 16 || as_wanted(outcome)) return outcome;
  }
}

/// Runs `call`, which must throw; answers what the error says.
template <class Call>
std::string refusal(ErrorCode code, Call&& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "not refused";
  return "";
}

inline void expect_in(const std::string& text, const std::vector<std::string>& parts) {
  for (const std::string& part : parts) {
    EXPECT_NE(text.find(part), std::string::npos) << "no \"" << part << "\" in: " << text;
  }
}

inline bool contains(const Error& error, const std::string& text) {
  return std::string(error.what()).find(text) != std::string::npos;
}

/// The error names a PE that is lost, or is about to be: of several that ended at once the one
/// whose queue failed first, of which the watcher may not have been told yet.
template <class Pe>
bool names_one_lost(const Pe& pe, const Error& error) {
  const auto named = [&](int lost) { return contains(error, "PE " + std::to_string(lost)); };
  return wait_until([&] { return std::ranges::any_of(pe.lost_pes(), named); },
                    RunClock::now() + std::chrono::seconds(60));
}

inline void expect_error(const Error& error, ErrorCode code,
                         const std::vector<std::string>& parts) {
  EXPECT_EQ(to_string(error.code()), std::string(to_string(code))) << error.what();
  for (const std::string& part : parts) {
    EXPECT_TRUE(contains(error, part)) << part << " in " << error.what();
  }
}

}  // namespace peal
