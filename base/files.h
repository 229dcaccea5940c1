// SPDX-License-Identifier: Apache-2.0
//
// Small files and folders as sysfs has them. What cannot be read is empty, never an error: virtual
// machines and containers show any part of it or nothing. All by Fd, which std::ifstream and
// fopen() know nothing of.
#pragma once

#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "base/fd.h"

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
  const Fd in(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  std::string all;
  char chunk[4096];
  for (;;) {
    const ssize_t n = ::read(in.get(), chunk, sizeof chunk);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return all;
    all.append(chunk, static_cast<size_t>(n));
  }
}

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using OpenFile = std::unique_ptr<std::FILE, CloseFile>;

/// As fopen(file, "r"), closed by exec and above standard descriptors. None, and errno tells.
inline OpenFile open_to_read(const std::filesystem::path& file) {
  Fd in(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  OpenFile opened(in ? ::fdopen(in.get(), "r") : nullptr);
  if (opened) in.release();
  return opened;
}

/// Makes or replaces the file. False, and errno tells, where not all of it was written.
inline bool write_file(const std::filesystem::path& file, std::string_view text) {
  const Fd out(::open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  while (out && !text.empty()) {
    const ssize_t n = ::write(out.get(), text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return false;
    text.remove_prefix(static_cast<size_t>(n));
  }
  return static_cast<bool>(out);
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
  // "7f00-8f00 r-xp 0 08:01 17   /path": the kernel's list has whole paths.
  const auto address = reinterpret_cast<uintptr_t>(here);
  std::istringstream maps(bytes_of("/proc/self/maps"));
  for (std::string line; std::getline(maps, line);) {
    uintptr_t low = 0;
    uintptr_t high = 0;
    char dash = 0;
    std::istringstream(line) >> std::hex >> low >> dash >> high;
    if (address < low || address >= high) continue;
    return line.substr(std::min(line.find('/'), line.size()));
  }
  return {};
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
