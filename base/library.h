// SPDX-License-Identifier: Apache-2.0
//
// Libraries of others, loaded at run time: drivers, verbs, MPI. They open descriptors of their own,
// and none of them looks whether its number is that of a closed standard output.
#pragma once

#include <dlfcn.h>

#include "base/fd.h"

namespace peal {

/// As dlopen. Throws std::system_error where a closed standard descriptor cannot be kept free.
inline void* load_library(const char* path, int flags) {
  occupy_standard_descriptors();
  return ::dlopen(path, flags);
}

}  // namespace peal
