// SPDX-License-Identifier: Apache-2.0
//
// Libraries of others, loaded at run time: drivers, verbs, MPI. They open descriptors of their own,
// and none of them looks whether its number is that of a closed standard output.
#pragma once

#include <dlfcn.h>

#include <utility>

#include "base/fd.h"

namespace peal {

/// As dlopen. Throws std::system_error where a closed standard descriptor cannot be kept free.
inline void* load_library(const char* path, int flags) {
  occupy_standard_descriptors();
  return ::dlopen(path, flags);
}

/// Finds functions of a library, and remembers what it lacks.
class LibraryFunctions {
 public:
  explicit LibraryFunctions(void* library) : library_(library) {}

  /// Null where the library has no such symbol.
  template <class Function>
  void find(Function*& function, const char* symbol) {
    function = reinterpret_cast<Function*>(::dlsym(library_, symbol));
    if (function == nullptr && missing_ == nullptr) missing_ = symbol;
  }
  /// The first symbol that was not found since this was asked last, or null.
  const char* missing() { return std::exchange(missing_, nullptr); }

 private:
  void* library_;
  const char* missing_ = nullptr;
};

}  // namespace peal
