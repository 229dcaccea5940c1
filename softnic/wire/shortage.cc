// SPDX-License-Identifier: Apache-2.0
#include "softnic/wire/shortage.h"

#include <sys/resource.h>
#include <sys/statvfs.h>

#include <cerrno>

#include "base/files.h"

namespace peal::softnic {

namespace {

std::string shown(uint64_t bytes) {
  constexpr uint64_t kKib = 1 << 10;
  constexpr uint64_t kMib = 1 << 20;
  if (bytes >= 10 * kMib || (bytes >= kMib && bytes % kMib == 0)) {
    return std::to_string(bytes / kMib) + " MiB";
  }
  return std::to_string(bytes / kKib) + " KiB";
}

std::string no_space(const std::string& directory) {
  const Room room = Room::in(directory);
  if (room.free_files == 0) {
    return directory +
           " has no inode left: give its file system more (mount -o remount,nr_inodes=), "
           "or name a folder of another one by PEAL_SOFTNIC_DIR";
  }
  if (room.total_bytes == ~uint64_t{0}) return "PEAL_SOFTNIC_DIR chooses another file system";
  const uint64_t links = room.links();
  return directory + ": " + shown(room.free_bytes) + " of " + shown(room.total_bytes) +
         " are left, and " + std::to_string(room.nics) + " NICs that all talk to each other need " +
         shown(links * link_bytes(kSmallestRing)) + " for their " + std::to_string(links) +
         " links, for their full speed " + shown(links * link_bytes(kLargestRing)) +
         "; make it larger (docker run --shm-size=, mount -o remount,size=), or name a folder of a "
         "larger tmpfs by PEAL_SOFTNIC_DIR";
}

std::string no_descriptor() {
  rlimit limit = {};
  getrlimit(RLIMIT_NOFILE, &limit);
  return "this process may have " + std::to_string(limit.rlim_cur) +
         " open, and its NIC keeps one for each peer: raise it by ulimit -n (docs/running.md)";
}

}  // namespace

Room Room::in(const std::string& directory) {
  Room room;
  struct statvfs info;
  if (statvfs(directory.c_str(), &info) == 0) {
    room.total_bytes = info.f_blocks * info.f_frsize;
    room.free_bytes = info.f_bavail * info.f_frsize;
    if (info.f_files != 0) room.free_files = info.f_favail;  // 0: it does not count them
  }
  uint64_t slots = 0;
  for (const std::string& name : names_in(directory)) {
    if (name.starts_with("slot-")) ++slots;
  }
  if (slots > room.nics) room.nics = slots;
  return room;
}

uint64_t Room::ring_bytes() const {
  const uint64_t share = free_bytes / links();
  uint64_t ring = kLargestRing;
  while (ring > kSmallestRing && link_bytes(ring) > share) ring /= 2;
  return ring;
}

bool is_shortage(int error) {
  return error == ENOSPC || error == EDQUOT || error == ENOMEM || error == EMFILE ||
         error == ENFILE;
}

std::string shortage(int error, const std::string& directory) {
  switch (error) {
    case ENOSPC:
    case EDQUOT:
      return no_space(directory);
    case EMFILE:
      return no_descriptor();
    case ENFILE:
      return "the system has no descriptor left: raise fs.file-max (sysctl)";
    case ENOMEM:
      return "the system has no memory left, or the process too many mappings (vm.max_map_count)";
    default:
      return "";
  }
}

}  // namespace peal::softnic
