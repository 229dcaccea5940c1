// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/random.h>

#include <array>
#include <cerrno>
#include <cstddef>

#include "host/base/error.h"

namespace peal {

/// Bytes that nobody can guess, from the kernel's generator. Throws kSystem where it fails.
inline std::array<std::byte, 16> random_bytes() {
  std::array<std::byte, 16> bytes;
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    fail_errno(errno, "getrandom(16)");
  }
  return bytes;
}

}  // namespace peal
