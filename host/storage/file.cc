// SPDX-License-Identifier: Apache-2.0
#include "host/storage/file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "base/fd.h"
#include "host/base/error.h"

namespace peal::storage {
namespace {

const char* remedy_of(int error) {
  switch (error) {
    case ENOENT:
      return "; is the path right, and does every folder in it exist?";
    case EACCES:
    case EPERM:
      return "; give this user the right to it, or choose another path";
    case EISDIR:
      return "; name a file in it";
    case ENOSPC:
      return "; free space there, or choose another path";
    case EDQUOT:
      return "; this user's quota is used up: free space there, or choose another path";
    case EROFS:
      return "; choose a path on a file system that is mounted for writing";
    case EFBIG:
      return "; raise the limit (ulimit -f), or choose a file system for larger files";
    case EMFILE:
      return "; raise the limit (ulimit -n)";
    case EIO:
      return "; the disk or its connection fails: see the kernel's log";
    default:
      return "";
  }
}

bool lies_in_path(int error) {
  return error == ENOENT || error == EACCES || error == EPERM || error == EISDIR ||
         error == ENOTDIR || error == ELOOP || error == ENAMETOOLONG || error == EROFS;
}

File::Descriptor opened(const SystemCalls& calls, const std::string& path, File::Use use) {
  if (path.empty()) fail(ErrorCode::kInvalidArgument, "storage: the path is empty");
  const bool reads = use == File::Use::kRead;
  const int access = reads ? O_RDONLY : O_RDWR;
  const int fd = File::open(calls, path, access | (reads ? 0 : O_NOFOLLOW));
  if (fd < 0) fail_on_path(errno, reads ? "open" : "open for writing", path);
  return {fd, access};
}

}  // namespace

void fail_on_path(int error, const std::string& call, const std::string& path) {
  fail(lies_in_path(error) ? ErrorCode::kInvalidArgument : ErrorCode::kSystem, "{} of {}: {}{}",
       call, path, std::strerror(error), remedy_of(error));
}

// What one system call moves.
struct File::Step {
  int fd;
  size_t bytes;
};

int File::open(const SystemCalls& calls, const std::string& path, int flags) {
  int fd = -1;
  do {
    // O_NONBLOCK: opening a pipe that nobody writes would wait for ever. Files do not care.
    fd = calls.open(path.c_str(), flags | O_CLOEXEC | O_NONBLOCK, 0666);
  } while (fd < 0 && errno == EINTR);
  return fd;
}

File::File(const SystemCalls& calls, std::string path, Use use, bool direct)
    : File(calls, path, opened(calls, path, use), direct) {}

File::File(const SystemCalls& calls, std::string path, Descriptor opened, bool direct)
    : calls_(calls), path_(std::move(path)), fd_(opened.fd) {
  struct stat told = {};
  const int error = calls_.fstat(fd_, &told) == 0 ? 0 : errno;
  if (error != 0 || !(S_ISREG(told.st_mode) || S_ISBLK(told.st_mode))) {
    calls_.close(fd_);
    if (error != 0) fail_on_path(error, "fstat", path_);
    fail(ErrorCode::kInvalidArgument, "open of {}: it is no regular file; name a file", path_);
  }
  if (direct) {
    open_direct(opened.access | O_CLOEXEC);
  } else {
    why_not_direct_ = "as asked";
  }
}

File::~File() {
  if (direct_fd_ >= 0) calls_.close(direct_fd_);
  calls_.close(fd_);
}

void File::open_direct(int flags) {
  // By the descriptor: the path may name another file by now.
  const std::string same = fmt::format("/proc/self/fd/{}", fd_);
  direct_fd_ = calls_.open(same.c_str(), flags | O_DIRECT, 0);
  if (direct_fd_ < 0) {
    why_not_direct_ = fmt::format("open with O_DIRECT: {}", std::strerror(errno));
    return;
  }
  direct_.store(true, std::memory_order_relaxed);
}

void File::give_up_direct(std::string why) {
  const std::lock_guard lock(mutex_);
  if (direct_.exchange(false, std::memory_order_relaxed)) why_not_direct_ = std::move(why);
}

std::string File::describe() const {
  const std::lock_guard lock(mutex_);
  return direct() ? "O_DIRECT" : fmt::format("through the page cache ({})", why_not_direct_);
}

uint64_t File::bytes() const {
  struct stat told = {};
  if (calls_.fstat(fd_, &told) != 0) fail_on_path(errno, "fstat", path_);
  if (!S_ISBLK(told.st_mode)) return static_cast<uint64_t>(told.st_size);
  const off_t end = ::lseek(fd_, 0, SEEK_END);  // a device has no size in its inode
  if (end < 0) fail_on_path(errno, "lseek", path_);
  return static_cast<uint64_t>(end);
}

File::Step File::next(uint64_t offset, const std::byte* memory, size_t bytes) const {
  const auto address = reinterpret_cast<uintptr_t>(memory);
  if (!direct() || (address - offset) % kBlock != 0) return {fd_, bytes};
  if (offset % kBlock != 0) return {fd_, std::min(bytes, kBlock - offset % kBlock)};
  if (bytes < kBlock) return {fd_, bytes};
  return {direct_fd_, bytes / kBlock * kBlock};
}

bool File::gave_up_direct(const Step& step, int error) {
  // A file system may open a file with O_DIRECT and then refuse what is asked by it.
  if (step.fd != direct_fd_ || error != EINVAL) return false;
  give_up_direct("a transfer with O_DIRECT: Invalid argument");
  return true;
}

size_t File::moved(const char* call, const Step& step, uint64_t offset, ssize_t answer) {
  if (answer > 0) return static_cast<size_t>(answer);
  const int error = answer == 0 ? ENOSPC : errno;  // 0 of pwrite: nothing fits
  if (error == EINTR || gave_up_direct(step, error)) return 0;
  fail_on_path(error, fmt::format("{} of {} bytes at offset {}", call, step.bytes, offset), path_);
}

void File::read(uint64_t offset, std::byte* to, size_t bytes) {
  for (size_t done = 0; done < bytes;) {
    const uint64_t at = offset + done;
    const Step step = next(at, to + done, bytes - done);
    const ssize_t got = calls_.pread(step.fd, to + done, step.bytes, static_cast<off_t>(at));
    if (got == 0) {
      fail(ErrorCode::kInvalidArgument,
           "read of {}: {} bytes at offset {} asked, {} found: the file ends at {}", path_, bytes,
           offset, done, at);
    }
    done += moved("read", step, at, got);
  }
}

void File::write(uint64_t offset, const std::byte* from, size_t bytes) {
  for (size_t done = 0; done < bytes;) {
    const uint64_t at = offset + done;
    const Step step = next(at, from + done, bytes - done);
    const ssize_t put = calls_.pwrite(step.fd, from + done, step.bytes, static_cast<off_t>(at));
    done += moved("write", step, at, put);
  }
}

void File::resize(uint64_t bytes) {
  if (calls_.ftruncate(fd_, static_cast<off_t>(bytes)) == 0) return;
  fail_on_path(errno, fmt::format("ftruncate to {} bytes", bytes), path_);
}

void File::sync() {
  if (calls_.fsync(fd_) != 0) fail_on_path(errno, "fsync", path_);
}

const SystemCalls& linux_calls() {
  static constexpr SystemCalls kCalls{
      .open = [](const char* path, int flags,
                 mode_t mode) { return above_standard(::open(path, flags, mode)); },
      .close = ::close,
      .pread = ::pread,
      .pwrite = ::pwrite,
      .fstat = ::fstat,
      .stat = ::stat,
      .lstat = ::lstat,
      .ftruncate = ::ftruncate,
      .fchmod = ::fchmod,
      .fsync = ::fsync,
      .flock = ::flock,
      .rename = ::rename,
      .unlink = ::unlink,
  };
  return kCalls;
}

}  // namespace peal::storage
