// SPDX-License-Identifier: Apache-2.0
//
// Small files and folders as sysfs has them. What cannot be read is empty, never an error: virtual
// machines and containers show any part of it or nothing.
#pragma once

#include <dlfcn.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace peal {

/// Without white space at its ends.
inline std::string trimmed(const std::string& text) {
  constexpr const char* kSpace = " \t\r\n";
  const size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string::npos) return "";
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

/// The whole file, byte for byte.
inline std::string bytes_of(const std::filesystem::path& file) {
  std::ostringstream all;
  if (std::ifstream in(file, std::ios::binary); in) all << in.rdbuf();
  return all.str();
}

inline std::string text_of(const std::filesystem::path& file) { return trimmed(bytes_of(file)); }

/// Names in a folder, sorted.
inline std::vector<std::string> names_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    names.push_back(entry->path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
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
  Dl_info info{};
  if (::dladdr(&here, &info) != 0 && info.dli_fname != nullptr) {
    const fs::path library = fs::weakly_canonical(info.dli_fname, error);
    const fs::path beside = library.parent_path() / "peal";
    if (library != program && fs::is_directory(beside, error)) return beside;
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
