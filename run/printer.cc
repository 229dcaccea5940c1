// SPDX-License-Identifier: Apache-2.0
#include "run/printer.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace peal::run {
namespace {

// The descriptor blocks, since it is shared with whoever started peal-run. This much fits into a
// pipe that poll calls writable (pipe(7)).
constexpr std::size_t kPiece = 4096;

}  // namespace

void Printer::add(std::string_view prefix, std::string_view lines) {
  if (closed_) return;
  while (!lines.empty()) {
    const std::size_t end = std::min(lines.find('\n'), lines.size() - 1) + 1;
    text_.append(prefix).append(lines.substr(0, end));
    lines.remove_prefix(end);
  }
}

bool Printer::write_some() {
  if (text_.empty()) return !closed_;
  const ssize_t n = ::write(fd_, text_.data(), std::min(text_.size(), kPiece));
  if (n < 0 && errno != EINTR && errno != EAGAIN) close();
  if (n > 0) text_.erase(0, static_cast<std::size_t>(n));
  return !closed_;
}

}  // namespace peal::run
