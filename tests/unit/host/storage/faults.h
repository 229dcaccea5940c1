// SPDX-License-Identifier: Apache-2.0
//
// A disk that fails as a test asks, and files of a test in a folder of its own.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "host/storage/file.h"

namespace peal::storage {

/// What goes wrong; counts from the last clear(). Shared by threads, and by a child of fork() as it
/// was then. Function pointers have no state: this is it.
struct Faults {
  static inline std::atomic<size_t> longest;       // bytes that one read or write moves; 0: all
  static inline std::atomic<int> interrupt_every;  // n-th read or write ends with EINTR; 0: none
  static inline std::atomic<int> read_error;       // errno of reads from `error_at` on
  static inline std::atomic<int> write_error;      // the same of writes
  static inline std::atomic<off_t> error_at;       // an offset
  static inline std::atomic<int> sync_error;
  static inline std::atomic<int> rename_error;
  static inline std::atomic<int> direct_error;           // of open with O_DIRECT
  static inline std::atomic<int> direct_transfer_error;  // of transfers by such a descriptor
  static inline std::atomic<int> kill_at;  // the n-th call that changes a file; 0: none

  static inline std::atomic<int> moves, changes, direct_moves;

  static void clear() {
    longest = 0;
    error_at = 0;
    for (auto* const one :
         {&interrupt_every, &read_error, &write_error, &sync_error, &rename_error, &direct_error,
          &direct_transfer_error, &kill_at, &moves, &changes, &direct_moves}) {
      *one = 0;
    }
  }

  static void change() {
    if (++changes == kill_at) ::kill(::getpid(), SIGKILL);
  }
  /// True with errno where the transfer fails.
  static bool fails(int fd, const std::atomic<int>& error, size_t bytes, off_t offset) {
    const int every = interrupt_every;
    if (const int n = ++moves; every != 0 && n % every == 0) {
      errno = EINTR;
      return true;
    }
    const bool direct = (::fcntl(fd, F_GETFL) & O_DIRECT) != 0;
    if (direct) ++direct_moves;
    errno = direct ? direct_transfer_error.load() : 0;
    if (errno == 0 && offset + static_cast<off_t>(bytes) > error_at) errno = error;
    return errno != 0;
  }
  static size_t cut(size_t bytes) {
    return longest == 0 ? bytes : std::min<size_t>(bytes, longest);
  }

  static const SystemCalls& calls() {
    static const SystemCalls all = [] {
      SystemCalls calls = linux_calls();
      calls.open = [](const char* path, int flags, mode_t mode) {
        if ((flags & O_DIRECT) != 0 && direct_error != 0) return errno = direct_error, -1;
        return ::open(path, flags, mode);
      };
      calls.pread = [](int fd, void* to, size_t bytes, off_t offset) -> ssize_t {
        return fails(fd, read_error, bytes, offset) ? -1 : ::pread(fd, to, cut(bytes), offset);
      };
      calls.pwrite = [](int fd, const void* from, size_t bytes, off_t offset) -> ssize_t {
        change();
        return fails(fd, write_error, bytes, offset) ? -1 : ::pwrite(fd, from, cut(bytes), offset);
      };
      calls.ftruncate = [](int fd, off_t bytes) { return change(), ::ftruncate(fd, bytes); };
      calls.fsync = [](int fd) {
        change();
        return sync_error != 0 ? (errno = sync_error, -1) : ::fsync(fd);
      };
      calls.rename = [](const char* from, const char* to) {
        change();
        return rename_error != 0 ? (errno = rename_error, -1) : ::rename(from, to);
      };
      return calls;
    }();
    return all;
  }
};

/// A test with a folder that is removed at its end, and no faults at its beginning.
class Storage : public testing::Test {
 protected:
  Storage() {
    Faults::clear();
    const auto* const test = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = std::filesystem::path(testing::TempDir()) / ("peal-" + std::string(test->name()));
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  ~Storage() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name = "file") const { return folder_ / name; }
  /// Names of what is in the folder.
  std::vector<std::string> names() const {
    std::vector<std::string> found;
    for (const auto& one : std::filesystem::directory_iterator(folder_)) {
      found.push_back(one.path().filename());
    }
    std::ranges::sort(found);
    return found;
  }

 private:
  std::filesystem::path folder_;
};

inline void put_file(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}
inline std::string file_at(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Bytes that differ from place to place, and by seed.
inline std::string pattern(size_t bytes, unsigned seed = 1) {
  std::string made(bytes, '\0');
  unsigned state = seed * 2654435761u + 1;
  for (char& one : made) {
    state = state * 1664525u + 1013904223u;
    one = static_cast<char>(state >> 24);
  }
  return made;
}

}  // namespace peal::storage
