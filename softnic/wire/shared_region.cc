// SPDX-License-Identifier: Apache-2.0
//
// Which file a registration lies in, from /proc/self, and another process's file, from /proc/PID.
#include "softnic/wire/shared_region.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/peer_file.h"
#include "base/vm_areas.h"

namespace peal::softnic {

namespace {

constexpr uint64_t kPage = 4096;

struct CloseFolder {
  void operator()(DIR* folder) const { closedir(folder); }
};

/// A file of this user in ordinary memory (huge pages may run out under who reads) that nobody can
/// make shorter than `end`.
bool keeps_its_bytes(int fd, const struct stat& info, uint64_t end) {
  const int seals = fcntl(fd, F_GET_SEALS);
  struct statfs system;
  if (fstatfs(fd, &system) != 0 || system.f_type != TMPFS_MAGIC) return false;
  return S_ISREG(info.st_mode) && info.st_uid == geteuid() && seals >= 0 &&
         (seals & F_SEAL_SHRINK) != 0 && end <= static_cast<uint64_t>(info.st_size);
}

/// The inode of the memfd whose shared mapping holds the memory, and where in it that lies.
bool find_inode(const std::byte* memory, uint64_t bytes, RegionDescriptor* offer) {
  const auto begin = reinterpret_cast<uintptr_t>(memory);
  const std::optional<VmAreas> found = vm_areas_of(begin, begin + 1);
  if (!found || found->empty()) return false;
  const VmArea& area = found->front();
  offer->inode = area.inode;
  offer->offset = area.offset + (begin - area.begin);
  offer->bytes = bytes;
  return bytes <= area.end - begin && area.shared() && area.path.starts_with("/memfd:");
}

/// Opens the file once more, through the descriptor that the process has.
bool open_file(RegionDescriptor* offer) {
  const std::unique_ptr<DIR, CloseFolder> folder(opendir("/proc/self/fd"));
  while (const dirent* entry = folder == nullptr ? nullptr : readdir(folder.get())) {
    const int fd = std::atoi(entry->d_name);
    struct stat info;
    if (entry->d_name[0] == '.' || fstat(fd, &info) != 0 || info.st_ino != offer->inode) continue;
    if (!keeps_its_bytes(fd, info, offer->offset + offer->bytes)) continue;
    offer->device = info.st_dev;
    offer->fd = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    return offer->fd >= 0;
  }
  return false;
}

}  // namespace

std::optional<SharedRegion> SharedRegion::of(uint32_t key, const std::byte* memory,
                                             uint64_t bytes) {
  static std::atomic<uint64_t> ids{0};
  RegionDescriptor offer = {};
  if (bytes < kLeastBytes || !find_inode(memory, bytes, &offer) || !open_file(&offer)) return {};
  offer.id = ids.fetch_add(1, std::memory_order_relaxed) + 1;
  offer.pid = getpid();
  return SharedRegion(key, memory, offer);
}

bool SharedRegion::covers(const std::byte* at, uint32_t bytes, uint64_t* offset) const {
  *offset =
      static_cast<uint64_t>(reinterpret_cast<uintptr_t>(at) - reinterpret_cast<uintptr_t>(memory_));
  return *offset < offer_.bytes && bytes <= offer_.bytes - *offset;
}

void SharedRegions::add(SharedRegion region) {
  for (std::optional<SharedRegion>& slot : region_) {
    if (slot) continue;
    slot.emplace(std::move(region));
    return;
  }
}

uint32_t SharedRegions::find(const std::byte* at, uint32_t bytes, uint64_t* offset) {
  if (region_[last_] && region_[last_]->covers(at, bytes, offset)) return last_;
  for (uint32_t slot = 0; slot < kMax; ++slot) {
    if (region_[slot] && region_[slot]->covers(at, bytes, offset)) return last_ = slot;
  }
  return kMax;
}

uint32_t SharedRegions::find(uint64_t id) const {
  uint32_t slot = 0;
  while (slot < kMax && !(region_[slot] && region_[slot]->id() == id)) ++slot;
  return slot;
}

std::optional<PeerRegion> PeerRegion::open(const RegionDescriptor& offer) {
  const uint64_t end = offer.offset + offer.bytes;
  if (offer.bytes == 0 || end < offer.bytes || offer.pid <= 0 || offer.fd < 0) return {};
  const Fd file = open_peer_file({offer.pid, offer.fd, offer.device, offer.inode}, O_RDONLY);
  struct stat info;
  if (!file || fstat(file.get(), &info) != 0 || !keeps_its_bytes(file.get(), info, end)) return {};
  const uint64_t first = offer.offset / kPage * kPage;
  Mapping mapped(file, end - first, PROT_READ, first);
  if (!mapped.valid()) return {};
  return PeerRegion(offer, std::move(mapped));
}

const std::byte* PeerRegion::at(uint64_t offset, uint32_t bytes) const {
  if (offset >= offer_.bytes || bytes > offer_.bytes - offset) return nullptr;
  return file_.memory() + offer_.offset % kPage + offset;
}

}  // namespace peal::softnic
