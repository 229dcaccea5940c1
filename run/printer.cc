// SPDX-License-Identifier: Apache-2.0
#include "run/printer.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace peal::run {
namespace {

// The descriptor blocks, since it is shared with whoever started peal-run. This much fits into a
// pipe that poll calls writable (pipe(7)).
constexpr std::size_t kPiece = 4096;
constexpr int kPiecesAtOnce = 64;  // then others are heard

bool writable(int fd) {
  pollfd one{.fd = fd, .events = POLLOUT, .revents = 0};
  return ::poll(&one, 1, 0) > 0;
}

}  // namespace

void Printer::add(std::string_view prefix, std::string_view lines) {
  if (closed_) return;
  while (!lines.empty()) {
    const std::size_t end = std::min(lines.find('\n'), lines.size() - 1) + 1;
    text_.append(prefix);
    text_.append(lines.substr(0, end));
    lines.remove_prefix(end);
  }
}

bool Printer::write_some() {
  for (int i = 0; i < kPiecesAtOnce && text_.size() > 0; ++i) {
    if (i > 0 && !writable(fd_)) break;
    const std::string_view piece = text_.view().substr(0, kPiece);
    const ssize_t n = ::write(fd_, piece.data(), piece.size());
    if (n > 0) text_.drop(static_cast<std::size_t>(n));
    if (n >= 0) continue;
    if (errno == EINTR || errno == EAGAIN) break;
    error_ = errno;
    close();
  }
  return !closed_;
}

}  // namespace peal::run
