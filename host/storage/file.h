// SPDX-License-Identifier: Apache-2.0
//
// One open file and host memory. O_DIRECT is hidden from the caller: whole blocks go past the page
// cache where the file system takes it, what is not aligned goes through it.
//
//   offset  | head |   whole blocks   | tail |
//   by      | cache|     O_DIRECT     | cache|     no block is reached both ways
//
// Two descriptors of one file do it. Where O_DIRECT is refused, everything goes by the first.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>

namespace peal::storage {

/// Every system call that host/storage makes on files. Tests put functions of their own in it:
/// short reads, a full disk, a process that is killed at its n-th write. As Linux has them: -1 and
/// errno on failure. Called from several threads at the same time.
struct SystemCalls {
  int (*open)(const char* path, int flags, mode_t mode);
  int (*close)(int fd);
  ssize_t (*pread)(int fd, void* to, size_t bytes, off_t offset);
  ssize_t (*pwrite)(int fd, const void* from, size_t bytes, off_t offset);
  int (*fstat)(int fd, struct stat* told);
  int (*stat)(const char* path, struct stat* told);
  int (*lstat)(const char* path, struct stat* told);
  int (*ftruncate)(int fd, off_t bytes);
  int (*fchmod)(int fd, mode_t mode);
  int (*fsync)(int fd);
  int (*flock)(int fd, int operation);
  int (*rename)(const char* from, const char* to);
  int (*unlink)(const char* path);
};

/// The operating system's own.
const SystemCalls& linux_calls();

/// O_DIRECT wants file offset, length and memory in multiples of this: a page, which is at least
/// the logical block of every disk that Linux mounts.
inline constexpr size_t kBlock = 4096;

/// An open regular file or block device. read() and write() may be called from several threads.
class File {
 public:
  enum class Use { kRead, kWrite };
  /// A descriptor that open() made; the file takes it over.
  struct Descriptor {
    int fd;
    int access;  // O_RDONLY or O_RDWR
  };

  /// Opens `path`; kWrite follows no link there. With `direct` false O_DIRECT is not tried. Throws
  /// kInvalidArgument for a path that cannot be opened (missing, a folder, not permitted), kSystem
  /// for other failures.
  File(const SystemCalls& calls, std::string path, Use use, bool direct);
  /// The same with what is open already.
  File(const SystemCalls& calls, std::string path, Descriptor opened, bool direct);
  ~File();
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  /// A descriptor, or -1 and errno. Does not wait for the writer of a pipe.
  static int open(const SystemCalls& calls, const std::string& path, int flags);

  const std::string& path() const { return path_; }
  /// Its size now.
  uint64_t bytes() const;

  /// Reads all of [offset, offset + bytes) into host memory. Throws kInvalidArgument where the file
  /// ends before, kSystem where the disk fails; both name path, offset and what was asked. Memory
  /// holds part of the bytes then.
  void read(uint64_t offset, std::byte* to, size_t bytes);

  /// Writes all of [offset, offset + bytes). Throws kSystem, with a remedy for a full disk.
  void write(uint64_t offset, const std::byte* from, size_t bytes);

  void resize(uint64_t bytes);
  /// What was written is on the disk on return.
  void sync();

  /// For libraries that do the reading: the descriptor with O_DIRECT, if there is one.
  int descriptor() const { return direct() ? direct_fd_ : fd_; }
  /// The descriptor without O_DIRECT.
  int plain_descriptor() const { return fd_; }

  /// Whether whole blocks go past the page cache, as far as is known now.
  bool direct() const { return direct_.load(std::memory_order_relaxed); }
  /// "O_DIRECT", or "through the page cache (why)".
  std::string describe() const;

 private:
  struct Step;
  Step next(uint64_t offset, const std::byte* memory, size_t bytes) const;
  bool gave_up_direct(const Step& step, int error);
  /// Bytes that a system call at `offset` has moved; 0: it is to be made again. Throws what it
  /// refuses.
  size_t moved(const char* call, const Step& step, uint64_t offset, ssize_t answer);
  void open_direct(int flags);
  void give_up_direct(std::string why);

  const SystemCalls& calls_;
  const std::string path_;
  int fd_ = -1;
  int direct_fd_ = -1;
  std::atomic<bool> direct_ = false;
  mutable std::mutex mutex_;  // of what follows
  std::string why_not_direct_;
};

/// The file's path and what is wrong with it, from errno: throws kInvalidArgument for causes that
/// lie in the path, else kSystem.
[[noreturn]] void fail_on_path(int error, const std::string& call, const std::string& path);

}  // namespace peal::storage
