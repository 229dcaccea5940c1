// SPDX-License-Identifier: Apache-2.0
//
// Where the libraries lie that a test loads: below the folder of Bazel's outputs that holds this
// program.
#pragma once

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

}  // namespace peal
