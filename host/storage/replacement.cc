// SPDX-License-Identifier: Apache-2.0
#include "host/storage/replacement.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <utility>

#include "host/base/error.h"

namespace peal::storage {
namespace {

// A writer that ends between another's open and lock takes its file away with it; each further time
// takes one more writer that ends just then.
constexpr int kTakes = 16;

}  // namespace

Replacement::Replacement(const SystemCalls& calls, std::string path, bool direct, Left left)
    : calls_(calls), path_(std::move(path)), partial_(partial_of(path_)) {
  if (path_.empty()) fail(ErrorCode::kInvalidArgument, "storage: the path is empty");
  struct stat old = {};
  const bool exists = calls_.stat(path_.c_str(), &old) == 0;
  if (exists && !S_ISREG(old.st_mode)) {
    fail(ErrorCode::kInvalidArgument,
         "save to {}: what is there is no regular file, and would be replaced; choose another path",
         path_);
  }
  for (int takes = 0; !file_; ++takes) {
    if (takes == kTakes) {
      fail(ErrorCode::kSystem, "save to {}: other processes save to it all the time; let one do it",
           path_);
    }
    if (!take(direct)) file_.reset();
  }
  try {
    if (left == Left::kRemoved) file_->resize(0);
    if (exists && calls_.fchmod(file_->plain_descriptor(), old.st_mode & 07777) != 0) {
      fail_on_path(errno, "fchmod", partial_);
    }
  } catch (...) {
    if (is_there()) calls_.unlink(partial_.c_str());
    throw;
  }
}

Replacement::~Replacement() {
  // Before the lock goes with the descriptor: afterwards it may be another's.
  if (!committed_ && is_there()) calls_.unlink(partial_.c_str());
}

/// Whether `partial_` is this save's file.
bool Replacement::is_there() const {
  struct stat mine = {};
  struct stat there = {};
  return calls_.fstat(file_->plain_descriptor(), &mine) == 0 &&
         calls_.lstat(partial_.c_str(), &there) == 0 && mine.st_dev == there.st_dev &&
         mine.st_ino == there.st_ino;
}

void Replacement::remove_other() const {
  if (calls_.unlink(partial_.c_str()) != 0 && errno != ENOENT) {
    fail_on_path(errno, "unlink, of a link or another user's file,", partial_);
  }
}

/// Opens the file, made or as a writer has left it, and locks it. False when that was none, or its
/// writer has renamed or removed it meanwhile.
bool Replacement::take(bool direct) {
  int fd = File::open(calls_, partial_, O_RDWR | O_CREAT | O_EXCL);  // follows no link
  const bool made = fd >= 0;
  if (!made && errno == EEXIST) {
    fd = File::open(calls_, partial_, O_RDWR | O_NOFOLLOW);
    if (fd < 0 && errno == ENOENT) return false;
    if (fd < 0 && errno == ELOOP) return remove_other(), false;
  }
  if (fd < 0) fail_on_path(errno, "open for writing", partial_);
  file_.emplace(calls_, partial_, File::Descriptor{fd, O_RDWR}, direct);
  if (calls_.flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    fail(ErrorCode::kInvalidArgument,
         "save to {}: another process is writing {}; wait for it, or choose another path", path_,
         partial_);
  }
  if (made || !is_there()) return is_there();
  struct stat left = {};
  if (calls_.fstat(fd, &left) != 0) fail_on_path(errno, "fstat", partial_);
  if (!S_ISREG(left.st_mode)) {
    fail(ErrorCode::kInvalidArgument, "open of {}: it is no regular file; name a file", partial_);
  }
  // By another name the bytes would be somebody's who has not asked for them; another user could
  // change them at any time.
  const bool ours = left.st_nlink == 1 && left.st_uid == ::geteuid();
  if (!ours) remove_other();
  return ours;
}

void Replacement::commit() {
  file_->sync();
  if (!is_there()) {
    fail(ErrorCode::kSystem,
         "save to {}: somebody has removed {} or put another file there; {} is as it was", path_,
         partial_, path_);
  }
  if (calls_.rename(partial_.c_str(), path_.c_str()) != 0) {
    fail_on_path(errno, fmt::format("rename to {}", path_), partial_);
  }
  committed_ = true;
  sync_folder();
}

void Replacement::sync_folder() const {
  const std::string parent = std::filesystem::path(path_).parent_path();
  const std::string folder = parent.empty() ? std::string(".") : parent;
  const int fd = calls_.open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
  // Some file systems cannot, and keep the order of a rename by themselves.
  const int error = fd < 0 ? errno : calls_.fsync(fd) != 0 && errno != EINVAL ? errno : 0;
  if (fd >= 0) calls_.close(fd);
  if (error == 0 || error == EACCES) return;  // a folder that may be written and not read
  fail_on_path(error, fmt::format("{} is saved, but may be lost in a power cut: fsync", path_),
               folder);
}

}  // namespace peal::storage
