// SPDX-License-Identifier: Apache-2.0
//
// Small files and folders as sysfs has them. What cannot be read is empty, never an error: virtual
// machines and containers show any part of it or nothing. All by Fd, which std::ifstream knows
// nothing of.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/fd.h"

namespace peal {

/// Without white space at its ends.
inline std::string trimmed(const std::string& text) {
  constexpr const char* kSpace = " \t\r\n";
  const size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string::npos) return "";
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

/// The whole file, byte for byte.
inline std::string bytes_of(const std::filesystem::path& file) {
  const Fd in(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  std::string all;
  char chunk[4096];
  for (;;) {
    const ssize_t n = ::read(in.get(), chunk, sizeof chunk);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return all;
    all.append(chunk, static_cast<size_t>(n));
  }
}

/// Makes or replaces the file. False, and errno tells, where not all of it was written.
inline bool write_file(const std::filesystem::path& file, std::string_view text) {
  const Fd out(::open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  while (out && !text.empty()) {
    const ssize_t n = ::write(out.get(), text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return false;
    text.remove_prefix(static_cast<size_t>(n));
  }
  return static_cast<bool>(out);
}

inline std::string text_of(const std::filesystem::path& file) { return trimmed(bytes_of(file)); }

/// Names in a folder, sorted.
inline std::vector<std::string> names_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    names.push_back(entry->path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace peal
