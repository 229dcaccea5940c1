// SPDX-License-Identifier: Apache-2.0
#include "host/base/log.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace peal {

void Log::print(std::string_view subsystem, std::string_view text) const {
  const std::string prefix = rank_ == kNoRank ? fmt::format("peal[-] {}: ", subsystem)
                                              : fmt::format("peal[{}] {}: ", rank_, subsystem);
  while (text.ends_with('\n')) text.remove_suffix(1);
  std::string lines;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    lines.append(prefix).append(text.substr(begin, end - begin)).push_back('\n');
    begin = end + 1;
  }
  // A pipe may take a long message in parts; a log that is gone is nobody's error.
  for (std::string_view rest = lines; !rest.empty();) {
    const ssize_t written = ::write(fd_, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    rest.remove_prefix(static_cast<size_t>(written));
  }
}

}  // namespace peal
