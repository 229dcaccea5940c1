// SPDX-License-Identifier: Apache-2.0
//
// /proc/self/maps names a file by the numbers of the file system that has its pages, which need
// not be those that fstat answers: overlayfs and btrfs have two. Whether a descriptor is of that
// file is therefore asked by mapping a page of it and reading what /proc/self/maps says of that.
#include "host/memory/shared_pages.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <memory>
#include <string>
#include <system_error>
#include <utility>

#include "base/files.h"
#include "base/vm_areas.h"
#include "host/base/error.h"

namespace peal {
namespace {

/// Why open() failed, with the remedy where the limit of open files is met.
std::string not_open(const std::string& path, int error) {
  return fmt::format("open({}): {}{}", path, std::generic_category().message(error),
                     error == EMFILE || error == ENFILE
                         ? ": close some, or raise the limit (ulimit -n, fs.file-max)"
                         : "");
}

/// The mappings that [begin, end) lies in, in order.
VmAreas known_areas_of(uintptr_t begin, uintptr_t end) {
  std::optional<VmAreas> found = vm_areas_of(begin, end);
  if (!found) fail(ErrorCode::kUnsupported, "{}", not_open(kMaps, errno));
  return *std::move(found);
}

/// The mapping's name for people. A long path is cut at its beginning.
std::string name_of(const VmArea& mapping) {
  constexpr size_t kShown = 60;
  if (mapping.path.empty()) return "anonymous memory";
  if (mapping.path.size() <= kShown) return mapping.path;
  return "..." + mapping.path.substr(mapping.path.size() - kShown);
}

template <class... Args>
[[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) {
  fail(ErrorCode::kUnsupported, format, std::forward<Args>(args)...);
}

void expect_shared(const VmArea& mapping) {
  if (!mapping.shared()) {
    refuse(
        "private memory ({}), which no other process can map: allocate it by Runtime::malloc with "
        "HeapKind::kHost, or mmap a memfd with MAP_SHARED",
        name_of(mapping));
  }
  if (!mapping.readable() || !mapping.writable()) {
    refuse("{} is mapped {}: mmap it with PROT_READ | PROT_WRITE", name_of(mapping),
           mapping.access);
  }
  if (mapping.inode == 0) refuse("{} is no file's memory", name_of(mapping));
}

/// All of [begin, end) as one mapping.
VmArea whole_mapping(uintptr_t begin, uintptr_t end) {
  const VmAreas parts = known_areas_of(begin, end);
  uintptr_t known = begin;
  for (const VmArea& part : parts) {
    if (part.begin > known) break;
    expect_shared(part);
    if (!part.same_file(parts[0]) || part.offset - parts[0].offset != part.begin - parts[0].begin) {
      refuse(
          "it lies in two mappings ({} and {}): a window is of one file, at offsets that follow "
          "one another; register two windows",
          name_of(parts[0]), name_of(part));
    }
    known = part.end;
  }
  if (parts.empty() || known < end) refuse("nothing is mapped at its byte {}", known - begin);
  return parts[0];
}

bool regular(int fd, struct stat* info) { return ::fstat(fd, info) == 0 && S_ISREG(info->st_mode); }

/// `file` is the file behind `mapping`.
bool behind(const VmArea& mapping, const Fd& file) {
  const size_t page = page_bytes(file);
  const auto offset = static_cast<off_t>(mapping.offset / page * page);
  void* const probe = ::mmap(nullptr, page, PROT_READ, MAP_SHARED, file.get(), offset);
  if (probe == MAP_FAILED) return false;
  const auto begin = reinterpret_cast<uintptr_t>(probe);
  const auto unmap = [page](void* at) { ::munmap(at, page); };
  const std::unique_ptr<void, decltype(unmap)> mapped(probe, unmap);  // the next line may throw
  const VmAreas shown = known_areas_of(begin, begin + page);
  return !shown.empty() && shown[0].same_file(mapping);
}

/// A descriptor that this process has open already. The number of the file is the same in all file
/// systems but overlayfs, whose files have names.
Fd among_descriptors(const VmArea& mapping) {
  for (const std::string& name : names_in("/proc/self/fd")) {
    int fd = -1;
    std::from_chars(name.data(), name.data() + name.size(), fd);
    struct stat info {};
    if (!regular(fd, &info) || info.st_ino != mapping.inode) continue;
    // Looked at when nobody can close it any more.
    Fd copy(::fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
    const int flags = copy ? ::fcntl(copy.get(), F_GETFL) : 0;
    if ((flags & O_ACCMODE) == O_RDWR && behind(mapping, copy)) return copy;
  }
  return {};
}

/// None, and `why` tells: "open(/a/b): Permission denied".
Fd opened(const std::string& path, std::string* why) {
  struct stat info {};
  // Opening a device or a pipe might do something.
  if (::stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) {
    *why = path + " is no regular file";
    return {};
  }
  Fd file(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file) *why = not_open(path, errno);
  return file;
}

Fd file_of(const VmArea& mapping) {
  if (Fd file = among_descriptors(mapping)) return file;
  std::string why;
  if (mapping.path.starts_with('/')) {
    Fd file = opened(mapping.path, &why);
    if (file && behind(mapping, file)) return file;
  }
  // Asks nobody for a name, but wants CAP_CHECKPOINT_RESTORE or CAP_SYS_ADMIN.
  const std::string link =
      fmt::format("/proc/self/map_files/{:x}-{:x}", mapping.begin, mapping.end);
  if (Fd file = opened(link, &why)) return file;
  refuse("no descriptor of {} is open, and {}: keep one open, or use a memfd", name_of(mapping),
         why);
}

}  // namespace

size_t page_bytes(const Fd& file) {
  struct statfs system {};
  const bool huge = ::fstatfs(file.get(), &system) == 0 && system.f_type == HUGETLBFS_MAGIC;
  return static_cast<size_t>(huge ? system.f_bsize : ::sysconf(_SC_PAGESIZE));
}

SharedPages find_shared_pages(const std::byte* address, size_t bytes) {
  const auto begin = reinterpret_cast<uintptr_t>(address);
  if (begin + bytes <= begin) refuse("{} bytes from {} on are no memory", bytes, begin);
  const VmArea mapping = whole_mapping(begin, begin + bytes);
  SharedPages pages{file_of(mapping), mapping.offset + (begin - mapping.begin)};
  struct stat info {};
  if (!regular(pages.file.get(), &info)) refuse("{} is no regular file", name_of(mapping));
  const uint64_t end = pages.offset + bytes;
  if (end > static_cast<uint64_t>(info.st_size)) {
    refuse("it ends at byte {} of {}, which has {}: ftruncate the file to its size first", end,
           name_of(mapping), info.st_size);
  }
  return pages;
}

}  // namespace peal
