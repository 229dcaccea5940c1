// SPDX-License-Identifier: Apache-2.0
//
// What is mapped in this process, and where. The kernel is asked for one mapping at a time where it
// answers (PROCMAP_QUERY, Linux 6.11: include/uapi/linux/fs.h). Else /proc/self/maps is read from
// its beginning: a process with the stacks of a thousand lanes has as many lines.
#pragma once

#include <fcntl.h>
#include <linux/limits.h>
#include <sys/ioctl.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "base/files.h"

namespace peal {

/// A line of /proc/self/maps.
struct VmArea {
  uintptr_t begin = 0;
  uintptr_t end = 0;
  char access[5] = "---p";  // "rw-s"
  uint64_t offset = 0;
  uint32_t major = 0;
  uint32_t minor = 0;
  uint64_t inode = 0;  // 0: no file
  std::string path;    // as the kernel shows it: " (deleted)" may be behind it

  bool readable() const { return access[0] == 'r'; }
  bool writable() const { return access[1] == 'w'; }
  bool shared() const { return access[3] == 's'; }
  bool same_file(const VmArea& other) const {
    return major == other.major && minor == other.minor && inode == other.inode;
  }
};

using VmAreas = std::vector<VmArea>;
inline constexpr const char* kMaps = "/proc/self/maps";

namespace vm_areas_detail {

/// struct procmap_query.
struct Query {
  uint64_t bytes, flags, address;
  uint64_t begin, end, access, page_bytes, offset, inode;
  uint32_t major, minor;
  uint32_t name_bytes, build_id_bytes;
  uint64_t name, build_id;
};
static_assert(sizeof(Query) == 104);

inline constexpr uint64_t kReadable = 1;
inline constexpr uint64_t kWritable = 2;
inline constexpr uint64_t kExecutable = 4;
inline constexpr uint64_t kShared = 8;
inline constexpr uint64_t kThereOrNext = 16;  // the mapping at the address, or the next one

/// None where the kernel does not answer.
inline std::optional<VmAreas> asked(const Fd& maps, uintptr_t begin, uintptr_t end) {
  const auto letter = [](const Query& query, uint64_t flag, char yes, char no) {
    return (query.access & flag) != 0 ? yes : no;
  };
  constexpr size_t kDeleted = sizeof " (deleted)";
  char name[PATH_MAX + kDeleted];
  VmAreas found;
  for (uintptr_t at = begin; at < end; at = found.back().end) {
    Query query{};
    query.bytes = sizeof query;
    query.flags = kThereOrNext;
    query.address = at;
    query.name = reinterpret_cast<uintptr_t>(name);
    query.name_bytes = sizeof name;
    const bool answered = ::ioctl(maps.get(), _IOWR('f', 17, Query), &query) == 0;
    if (!answered && errno != ENOENT) return std::nullopt;
    if (!answered || query.begin >= end) break;
    found.push_back(
        {.begin = query.begin,
         .end = query.end,
         .access = {letter(query, kReadable, 'r', '-'), letter(query, kWritable, 'w', '-'),
                    letter(query, kExecutable, 'x', '-'), letter(query, kShared, 's', 'p')},
         .offset = query.offset,
         .major = query.major,
         .minor = query.minor,
         .inode = query.inode,
         .path = query.name_bytes == 0 ? "" : name});
  }
  return found;
}

/// The same by reading.
inline std::optional<VmAreas> read(uintptr_t begin, uintptr_t end) {
  VmAreas found;
  std::istringstream maps(bytes_of(kMaps));
  for (std::string line; std::getline(maps, line);) {
    VmArea mapping;
    int path = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx %4s %lx %x:%x %lu %n", &mapping.begin, &mapping.end,
                    mapping.access, &mapping.offset, &mapping.major, &mapping.minor, &mapping.inode,
                    &path) != 7) {
      errno = EPROTO;
      return std::nullopt;
    }
    if (mapping.begin >= end) break;
    if (mapping.end <= begin) continue;
    mapping.path = line.substr(static_cast<size_t>(path));
    found.push_back(std::move(mapping));
  }
  return found;
}

}  // namespace vm_areas_detail

/// The mappings that some of [begin, end) lies in, by address. None, and errno tells, where that
/// cannot be found out: EMFILE without a descriptor, ENOENT without /proc.
inline std::optional<VmAreas> vm_areas_of(uintptr_t begin, uintptr_t end) {
  {
    const Fd maps(::open(kMaps, O_RDONLY | O_CLOEXEC));
    if (!maps) return std::nullopt;
    if (auto found = vm_areas_detail::asked(maps, begin, end)) return found;
  }
  return vm_areas_detail::read(begin, end);
}

}  // namespace peal
