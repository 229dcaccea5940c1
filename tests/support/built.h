// SPDX-License-Identifier: Apache-2.0
//
// Where the libraries lie that a test loads: below the folder of Bazel's outputs that holds this
// program. And how a test shares a state with one that stands in for another.
#pragma once

#include <dlfcn.h>

#include <filesystem>
#include <stdexcept>
#include <string>

namespace peal {

/// The output at `path` (as in a label: folders from the workspace's root). Throws where none is.
inline std::filesystem::path built(const std::string& path) {
  const auto program = std::filesystem::read_symlink("/proc/self/exe");
  for (auto folder = program.parent_path(); folder != folder.root_path();
       folder = folder.parent_path()) {
    if (std::filesystem::exists(folder / path)) return folder / path;
  }
  throw std::runtime_error("no " + path + " above " + program.string() + ": build it");
}

/// What `state`() of the library at `path` answers, which stays loaded. Throws where that fails.
template <class State>
State& stand_in(const std::string& path, const char* state) {
  void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw std::runtime_error(::dlerror());
  return *reinterpret_cast<State* (*)()>(::dlsym(library, state))();
}

}  // namespace peal
