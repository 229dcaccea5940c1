// SPDX-License-Identifier: Apache-2.0
//
// Slot files and ring files. Every step tolerates another process doing the same at the same time:
// a claim counts only while the locked file is still the one that bears the name.
#include "softnic/wire/fabric.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "base/files.h"
#include "softnic/engine/word.h"
#include "softnic/wire/shortage.h"

namespace peal::softnic {

/// First page of a slot file. Written by its owner, except for the knocks.
struct Fabric::SlotPage {
  struct ShownGid {
    uint32_t used;
    uint32_t network;
    std::array<uint8_t, 16> raw;
  };
  uint64_t format;      // format_word()
  uint64_t generation;  // 0 once closed
  alignas(64) uint64_t knock_count;
  alignas(64) uint64_t knocks[kMaxSlots / 64];
  alignas(64) uint8_t refused[kMaxSlots];  // by slot of who knocked: an errno, or 0
  alignas(64) uint64_t announced;          // 1: what follows is complete
  uint64_t ethernet;
  uint64_t active;
  uint64_t subnet;
  uint64_t gid_count;
  ShownGid gid[PresentedDevice::kMaxGids];
};

namespace {

constexpr size_t kSlotBytes = 4096;
constexpr size_t kMaxRingBytes = 16 << 20;
constexpr int kClaimTries = 8;

/// What tells one folder from all others: the kernel that has it, its file system, and its file
/// there.
uint64_t identity_of(const std::string& directory) {
  struct stat info;
  if (stat(directory.c_str(), &info) != 0) return 1;
  const std::string name = text_of("/proc/sys/kernel/random/boot_id") + "/" +
                           std::to_string(info.st_dev) + "/" + std::to_string(info.st_ino);
  uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  for (const char c : name) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3;
  return hash == 0 ? 1 : hash;
}

Fd open_file(const std::string& path, int flags) {
  return Fd(open(path.c_str(), flags | O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0600));
}

/// True when `path` still names the `file`.
bool same_file(const Fd& file, const std::string& path) {
  struct stat mine;
  struct stat named;
  return fstat(file.get(), &mine) == 0 && lstat(path.c_str(), &named) == 0 &&
         mine.st_ino == named.st_ino && mine.st_dev == named.st_dev;
}

/// A regular file of this user with `bytes` bytes (any number up to the limit when 0).
bool trustworthy(const Fd& file, size_t* bytes) {
  struct stat info;
  if (fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode) || info.st_uid != geteuid())
    return false;
  const auto size = static_cast<size_t>(info.st_size);
  if (*bytes == 0) *bytes = size;
  return size == *bytes && size > 0 && size <= kMaxRingBytes;
}

/// The format that a slot file of another version says it has; 0: this one's, or none.
uint32_t strange_format(const Fd& file) {
  constexpr uint64_t kUnnumbered = 0x706561'6c6e6964;
  uint64_t word = 0;
  if (pread(file.get(), &word, sizeof(word), 0) != sizeof(word)) return 0;
  if (word == kUnnumbered) return 1;
  const auto format = static_cast<uint32_t>(word);
  return word == format_word(format) && format != kFabricFormat ? format : 0;
}

/// Locks for ourselves. A stranger's look at the lock lasts a moment: ask a few times.
bool lock_exclusively(const Fd& file) {
  for (int i = 0; i < kClaimTries; ++i) {
    if (flock(file.get(), LOCK_EX | LOCK_NB) == 0) return true;
    sched_yield();
  }
  return false;
}

/// True while somebody holds the lock.
bool locked_by_owner(const Fd& file) {
  if (flock(file.get(), LOCK_SH | LOCK_NB) != 0) return errno == EWOULDBLOCK;
  flock(file.get(), LOCK_UN);
  return false;
}

}  // namespace

Mapping::Mapping(const Fd& file, size_t bytes, int rights, uint64_t from) : bytes_(bytes) {
  void* memory = mmap(nullptr, bytes, rights, MAP_SHARED, file.get(), static_cast<off_t>(from));
  if (memory != MAP_FAILED) memory_ = static_cast<std::byte*>(memory);
}

Fabric::Fabric(const Settings& settings)
    : root_(settings.directory + "/peal-softnic-" + std::to_string(geteuid())),
      directory_(root_ + "/" + settings.fabric),
      owner_(getpid()) {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  generation_ = static_cast<uint64_t>(now.tv_sec) << 30 | static_cast<uint64_t>(now.tv_nsec);
  make_directories();
  remove_stale();
  for (slot_ = 0; slot_ < kMaxSlots; ++slot_) {
    if (!claim(slot_)) continue;
    identity_ = identity_of(directory_);  // which stays while it holds the slot
    return;
  }
  errno = EUSERS;
  fail("all slots of " + directory_ + " are taken");
}

void Fabric::fail(const std::string& what) const {
  const int error = errno;
  const std::string more = shortage(error, directory_);
  throw std::system_error(error, std::generic_category(),
                          "softnic: " + what + (more.empty() ? "" : " (" + more + ")"));
}

Fabric::~Fabric() {
  if (getpid() != owner_) return;  // a forked child must not close what its parent uses
  auto* page = reinterpret_cast<SlotPage*>(page_.memory());
  store<uint64_t>(&page->generation, 0);
  unlink(slot_path(slot_).c_str());
  // The last one takes the folders away; others find them in use.
  remove_stale();
  rmdir(directory_.c_str());
  rmdir(root_.c_str());
}

uint64_t Fabric::guid() const {
  // An NVIDIA prefix would promise too much: locally administered, unique by time and slot.
  return 0x0270'6561'0000'0000ull | (generation_ << 11 & 0xffff'f800) | slot_;
}

std::string Fabric::slot_path(uint32_t slot) const {
  return directory_ + "/slot-" + std::to_string(slot);
}

std::string Fabric::ring_path(uint16_t from, uint64_t from_generation, uint16_t to,
                              uint64_t to_generation) const {
  char name[96];
  std::snprintf(name, sizeof(name), "/ring-%u-%" PRIx64 "-%u-%" PRIx64, unsigned{from},
                from_generation, unsigned{to}, to_generation);
  return directory_ + name;
}

void Fabric::make_directories() const {
  for (const std::string& path : {root_, directory_}) {
    if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
      // The last user of the fabric takes the folders away just now; but for what they lie in.
      if (errno == ENOENT && path != root_) return;
      fail("mkdir " + path + " (PEAL_SOFTNIC_DIR chooses where)");
    }
    struct stat info;
    if (lstat(path.c_str(), &info) != 0) {
      if (errno == ENOENT) return;  // likewise; claim() retries
      fail("stat " + path);
    }
    if (!S_ISDIR(info.st_mode) || info.st_uid != geteuid() || (info.st_mode & 0077) != 0) {
      errno = EPERM;
      fail(path + " is not a private folder of this user");
    }
  }
}

void Fabric::remove_stale() const {
  for (const std::string& name : names_in(directory_)) {
    const std::string path = directory_ + "/" + name;
    unsigned from = 0;
    uint64_t generation = 0;
    if (std::sscanf(name.c_str(), "slot-%u", &from) == 1) {
      const Fd file = open_file(path, 0);
      if (!file) continue;
      if (flock(file.get(), LOCK_EX | LOCK_NB) == 0 && same_file(file, path)) unlink(path.c_str());
    } else if (std::sscanf(name.c_str(), "ring-%u-%" SCNx64, &from, &generation) == 2) {
      const Peer owner = find(static_cast<uint16_t>(from));
      const bool known = owner.stranger == 0 && owner.error == 0;
      if (known && owner.generation != generation) unlink(path.c_str());
    }
  }
}

bool Fabric::claim(uint32_t slot) {
  const std::string path = slot_path(slot);
  for (int tries = 0; tries < kClaimTries; ++tries) {
    Fd file = open_file(path, O_CREAT);
    if (!file && errno == ENOENT) {
      make_directories();
      continue;
    }
    if (!file) fail("open " + path);
    if (!lock_exclusively(file)) return false;
    struct stat info;
    if (!same_file(file, path) || fstat(file.get(), &info) != 0 || info.st_size != 0) {
      // Somebody was faster, or a dead NIC's page: others may still map it, so take a new file.
      if (same_file(file, path)) unlink(path.c_str());
      continue;
    }
    if (const int error = posix_fallocate(file.get(), 0, kSlotBytes); error != 0) {
      unlink(path.c_str());
      errno = error;
      fail("allocate " + path);
    }
    file_ = std::move(file);
    page_ = Mapping(file_, kSlotBytes);
    if (!page_.valid()) fail("mmap " + path);
    static_assert(sizeof(SlotPage) <= kSlotBytes);
    auto* page = reinterpret_cast<SlotPage*>(page_.memory());
    page->format = format_word(kFabricFormat);
    store<uint64_t>(&page->generation, generation_);
    return true;
  }
  return false;
}

Peer Fabric::find(uint16_t lid) const {
  if (lid == 0 || lid > kMaxSlots) return {};
  Peer peer;
  peer.file = open_file(slot_path(lid - 1u), 0);
  if (!peer.file && is_shortage(errno)) peer.error = errno;
  size_t bytes = 0;
  if (!peer.file || !trustworthy(peer.file, &bytes)) return peer;
  const uint32_t strange = strange_format(peer.file);
  if (strange != 0 && locked_by_owner(peer.file)) peer.stranger = strange;
  if (peer.stranger == 0 && bytes == kSlotBytes) peer.slot = Mapping(peer.file, kSlotBytes);
  if (!peer.slot.valid()) {
    if (peer.stranger == 0 && bytes == kSlotBytes) peer.error = errno;
    return peer;
  }
  const auto* page = reinterpret_cast<const SlotPage*>(peer.slot.memory());
  peer.generation = load<uint64_t>(&page->generation);
  if (page->format != format_word(kFabricFormat) || !alive(peer)) peer.generation = 0;
  return peer;
}

void Fabric::refuse_stranger(uint16_t lid) const {
  const uint32_t stranger = find(lid).stranger;
  if (stranger == 0) return;
  throw std::runtime_error("the NIC at LID " + std::to_string(lid) + " keeps its files in " +
                           directory_ + " in format " + std::to_string(stranger) +
                           ", this process in format " + std::to_string(kFabricFormat) +
                           ": run all programs of a job with libpeal_softnic.so of one version");
}

void Fabric::announce(const PortNotice& port) const {
  auto* page = reinterpret_cast<SlotPage*>(page_.memory());
  page->ethernet = port.ethernet;
  page->active = port.active;
  page->subnet = port.subnet;
  page->gid_count = std::min<size_t>(port.gids.size(), PresentedDevice::kMaxGids);
  for (size_t i = 0; i < page->gid_count; ++i) {
    const GidTableEntry& gid = port.gids[i];
    page->gid[i] = {gid.used, static_cast<uint32_t>(gid.network), gid.raw};
  }
  store<uint64_t>(&page->announced, 1);
}

PortNotice Fabric::notice_of(const Peer& peer) {
  PortNotice port;
  if (!peer.found()) return port;
  const auto* page = reinterpret_cast<const SlotPage*>(peer.slot.memory());
  if (load<uint64_t>(&page->announced) != 1) return port;
  port.ethernet = page->ethernet != 0;
  port.active = page->active != 0;
  port.subnet = page->subnet;
  const uint64_t count = std::min<uint64_t>(page->gid_count, PresentedDevice::kMaxGids);
  for (uint64_t i = 0; i < count; ++i) {
    const SlotPage::ShownGid& gid = page->gid[i];
    port.gids.push_back({gid.used != 0, static_cast<Network>(gid.network), gid.raw});
  }
  return port;
}

std::vector<uint16_t> Fabric::members() const {
  std::vector<uint16_t> lids;
  for (const std::string& name : names_in(directory_)) {
    unsigned slot = 0;
    if (std::sscanf(name.c_str(), "slot-%u", &slot) != 1 || slot >= kMaxSlots) continue;
    const auto lid = static_cast<uint16_t>(slot + 1);
    if (find(lid).found()) lids.push_back(lid);
  }
  return lids;
}

bool Fabric::alive(const Peer& peer) const {
  const auto* page = reinterpret_cast<const SlotPage*>(peer.slot.memory());
  return peer.generation != 0 && load<uint64_t>(&page->generation) == peer.generation &&
         locked_by_owner(peer.file);
}

Mapping Fabric::create_ring(uint16_t lid, uint64_t generation, size_t bytes) const {
  const std::string path = ring_path(this->lid(), generation_, lid, generation);
  const Fd file = open_file(path, O_CREAT | O_EXCL);
  if (!file) return {};
  int error = posix_fallocate(file.get(), 0, static_cast<off_t>(bytes));
  if (error == 0) {
    Mapping mapped(file, bytes);
    if (mapped.valid()) return mapped;
    error = errno;
  }
  unlink(path.c_str());
  errno = error;
  return {};
}

Mapping Fabric::open_ring(uint16_t lid, uint64_t generation) const {
  const Fd file = open_file(ring_path(lid, generation, this->lid(), generation_), 0);
  size_t bytes = 0;
  if (!file) return {};
  if (!trustworthy(file, &bytes)) {
    errno = EPERM;
    return {};
  }
  return Mapping(file, bytes);
}

void Fabric::unlink_created_ring(uint16_t lid, uint64_t generation) const {
  if (getpid() != owner_) return;
  unlink(ring_path(this->lid(), generation_, lid, generation).c_str());
}

void Fabric::unlink_opened_ring(uint16_t lid, uint64_t generation) const {
  unlink(ring_path(lid, generation, this->lid(), generation_).c_str());
}

void Fabric::knock(const Peer& peer) const {
  auto* page = reinterpret_cast<SlotPage*>(peer.slot.memory());
  store<uint8_t>(&page->refused[slot_], 0);
  Word<uint64_t>(page->knocks[slot_ / 64]).fetch_or(1ull << (slot_ % 64), kOrdered);
  Word<uint64_t>(page->knock_count).fetch_add(1, kOrdered);
}

std::vector<uint16_t> Fabric::knocks() {
  auto* page = reinterpret_cast<SlotPage*>(page_.memory());
  const uint64_t count = load<uint64_t>(&page->knock_count);
  if (count == knocks_seen_) return {};
  knocks_seen_ = count;
  std::vector<uint16_t> lids;
  for (uint32_t word = 0; word < kMaxSlots / 64; ++word) {
    const uint64_t bits = Word<uint64_t>(page->knocks[word]).exchange(0, kOrdered);
    for (uint32_t bit = 0; bit < 64; ++bit) {
      if ((bits >> bit & 1) != 0) lids.push_back(static_cast<uint16_t>(word * 64 + bit + 1));
    }
  }
  return lids;
}

void Fabric::refuse(uint16_t lid, int error) const {
  auto* page = reinterpret_cast<SlotPage*>(page_.memory());
  store<uint8_t>(&page->refused[lid - 1u], static_cast<uint8_t>(error));
}

int Fabric::refused_by(const Peer& peer) const {
  return load<uint8_t>(&reinterpret_cast<const SlotPage*>(peer.slot.memory())->refused[slot_]);
}

void Fabric::report(const std::string& what, int error, const std::string& more) const {
  const std::string text = what + ": " + std::generic_category().message(error) +
                           (more.empty() ? "" : " (" + more + ")");
  const std::lock_guard lock(mutex_);
  trouble_ = text;
  if (std::exchange(reported_, error) == error) return;
  std::fprintf(stderr, "softnic: %s\n", text.c_str());
}

}  // namespace peal::softnic
