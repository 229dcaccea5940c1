// SPDX-License-Identifier: Apache-2.0
//
// One-line messages on stderr: "peal[3] nic: text". A Log is a small value, copied to whoever
// speaks; there is no global one. Each message leaves in one write(2), so that lines of threads and
// PEs do not mix.
#pragma once

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "host/base/log_level.h"

namespace peal {

/// Writes messages at most as unimportant as its level. Copyable, thread-safe, never throws for a
/// message that cannot be written.
class Log {
 public:
  static constexpr int kNoRank = -1;  // before bootstrap: "peal[-]"

  explicit Log(LogLevel level, int rank = kNoRank, int fd = 2)
      : level_(level), rank_(rank), fd_(fd) {}

  bool prints(LogLevel level) const { return level <= level_; }

  template <class... Args>
  void error(std::string_view subsystem, fmt::format_string<Args...> format, Args&&... args) const {
    write(LogLevel::kError, subsystem, format, std::forward<Args>(args)...);
  }
  template <class... Args>
  void warn(std::string_view subsystem, fmt::format_string<Args...> format, Args&&... args) const {
    write(LogLevel::kWarn, subsystem, format, std::forward<Args>(args)...);
  }
  template <class... Args>
  void info(std::string_view subsystem, fmt::format_string<Args...> format, Args&&... args) const {
    write(LogLevel::kInfo, subsystem, format, std::forward<Args>(args)...);
  }
  template <class... Args>
  void debug(std::string_view subsystem, fmt::format_string<Args...> format, Args&&... args) const {
    write(LogLevel::kDebug, subsystem, format, std::forward<Args>(args)...);
  }

  /// Prints `text` whatever the level (PEAL_INFO asks for it); each of its lines gets the prefix.
  void print(std::string_view subsystem, std::string_view text) const;

 private:
  template <class... Args>
  void write(LogLevel level, std::string_view subsystem, fmt::format_string<Args...> format,
             Args&&... args) const {
    if (prints(level)) print(subsystem, fmt::format(format, std::forward<Args>(args)...));
  }

  LogLevel level_;
  int rank_;
  int fd_;
};

}  // namespace peal
