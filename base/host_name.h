// SPDX-License-Identifier: Apache-2.0
//
// What this machine calls itself.
#pragma once

#include <unistd.h>

#include <string>

namespace peal {

/// Empty where the kernel does not tell.
inline std::string host_name() {
  std::string name(256, '\0');
  if (::gethostname(name.data(), name.size() - 1) != 0) return {};
  return name.c_str();
}

}  // namespace peal
