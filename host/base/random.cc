// SPDX-License-Identifier: Apache-2.0
#include "host/base/random.h"

#include <sys/random.h>

#include <cerrno>

#include "host/base/error.h"

namespace peal {

std::array<std::byte, 16> random_bytes() {
  std::array<std::byte, 16> bytes;
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    fail_errno(errno, "getrandom(16)");
  }
  return bytes;
}

}  // namespace peal
