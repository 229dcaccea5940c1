// SPDX-License-Identifier: Apache-2.0
//
// Where files that come with peal lie: near the code that asks for them.
#pragma once

#include <dlfcn.h>

#include <cstdint>
#include <filesystem>
#include <optional>

#include "base/vm_areas.h"

namespace peal {

/// The file that the code or constant at `here` was loaded from, whatever the current folder is by
/// now: what the loader says of it may be a path from where it was then. Empty: unknown.
inline std::filesystem::path file_loaded_at(const void* here) {
  Dl_info info{};
  if (::dladdr(here, &info) == 0 || info.dli_fname == nullptr) return {};
  if (info.dli_fname[0] == '/') {
    std::error_code error;
    const std::filesystem::path file = std::filesystem::weakly_canonical(info.dli_fname, error);
    return error ? info.dli_fname : file;
  }
  // The kernel's list has whole paths.
  const auto address = reinterpret_cast<uintptr_t>(here);
  const std::optional<VmAreas> found = vm_areas_of(address, address + 1);
  return found && !found->empty() ? found->front().path : "";
}

/// Where the search for files that come with peal begins: `peal/` beside the library that this code
/// is in, or in ../lib of the program, as installations have it; else the program's folder, or the
/// current one where that is not known.
inline std::filesystem::path search_start() {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  if (error) return ".";
  static const char here = 0;
  if (const fs::path library = file_loaded_at(&here); !library.empty() && library != program) {
    const fs::path beside = library.parent_path() / "peal";
    if (fs::is_directory(beside, error)) return beside;
  }
  const fs::path installed = program.parent_path().parent_path() / "lib/peal";
  return fs::is_directory(installed, error) ? installed : program.parent_path();
}

/// The first of `files` in `folder` or in one of `parents` folders above it; empty: none.
template <class Files>
std::filesystem::path find_above(std::filesystem::path folder, int parents, const Files& files) {
  for (int i = 0; i <= parents; ++i, folder = folder.parent_path()) {
    for (const char* name : files) {
      std::error_code error;
      if (std::filesystem::is_regular_file(folder / name, error)) return folder / name;
    }
  }
  return {};
}

}  // namespace peal
