// SPDX-License-Identifier: Apache-2.0
//
// Memory that another process's NIC copies from: which, until when, and what it does not believe.
#include "softnic/wire/shared_region.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <fstream>
#include <string>

#include "tests/unit/softnic/processes.h"

namespace peal::softnic::testing {

constexpr size_t kBytes = 1 << 20;

/// A memfd, mapped.
class File {
 public:
  explicit File(int seals, size_t bytes = kBytes) : bytes_(bytes) {
    fd = memfd_create("shared region", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    EXPECT_EQ(ftruncate(fd, static_cast<off_t>(bytes)), 0);
    EXPECT_EQ(fcntl(fd, F_ADD_SEALS, seals), 0);
    map(nullptr, MAP_SHARED);
  }
  ~File() {
    munmap(memory, bytes_);
    close(fd);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  void map(std::byte* at, int flags) {
    void* const mapped =
        mmap(at, bytes_, PROT_READ | PROT_WRITE, flags | (at != nullptr ? MAP_FIXED : 0), fd, 0);
    ASSERT_NE(mapped, MAP_FAILED);
    memory = static_cast<std::byte*>(mapped);
  }
  void fill(int value) const { std::memset(memory, value, bytes_); }
  struct stat info() const {
    struct stat info {};
    EXPECT_EQ(fstat(fd, &info), 0);
    return info;
  }

  int fd = -1;
  std::byte* memory = nullptr;

 private:
  size_t bytes_;
};

/// True if process `pid` has the file mapped, for reading only.
bool reads(pid_t pid, const File& file) {
  std::ifstream maps("/proc/" + std::to_string(pid) + "/maps");
  const std::string inode = " " + std::to_string(file.info().st_ino) + " ";
  for (std::string line; std::getline(maps, line);) {
    if (line.find(" r--s ") != std::string::npos && line.find(inode) != std::string::npos) {
      return true;
    }
  }
  return false;
}

/// Another process answers every number with whether all bytes of its memory are that.
void compare_memory(Line& line) {
  Station station(kBytes);
  station.connect(line);
  for (int value = line.hear<int>(); value >= 0; value = line.hear<int>()) {
    station.stop_nic();
    const auto* got = reinterpret_cast<const uint8_t*>(station.memory.pages.data());
    const bool same = std::count(got, got + kBytes, value) == static_cast<long>(kBytes);
    station.stop_nic();
    line.say(same);
  }
}

class PeerRegions : public ::testing::Test {
 protected:
  PeerRegions() : other(compare_memory) { station.connect(other.line()); }
  ~PeerRegions() override { other.line().say(-1); }

  uint32_t key_of(const File& file) {
    const Created created = station.nic->register_memory(
        {.pd = station.pd, .access = kEverything, .bytes = kBytes, .memory = file.memory});
    EXPECT_FALSE(created.refusal.refused());
    return created.number;
  }
  /// Writes all of the file to the other process; true if it has arrived there.
  bool arrives(const File& file, uint32_t key, int value) {
    file.fill(value);
    const SeenCqe cqe = station.run(write_from(0, station.peer.key, kBytes, key, 0));
    EXPECT_EQ(cqe.kind, CqeOpcode::kRequester);
    other.line().say(value);
    return other.line().hear<bool>();
  }

  Process other;  // first: it forks
  Station station;
};

TEST_F(PeerRegions, SealedFilesAreReadByThePeerUntilTheirKeyGoes) {
  const File file(F_SEAL_SHRINK);
  const uint32_t key = key_of(file);
  station.run(write_from(0, station.peer.key, 64, key, 0));
  EXPECT_FALSE(reads(other.pid(), file)) << "what is small goes through the ring";
  EXPECT_TRUE(eventually([&] {
    EXPECT_TRUE(arrives(file, key, 0x11));
    return reads(other.pid(), file);
  }));
  for (const int value : {0x22, 0x33}) EXPECT_TRUE(arrives(file, key, value));
  EXPECT_FALSE(station.nic->deregister_memory(key).refused());
  EXPECT_TRUE(eventually([&] { return !reads(other.pid(), file); }));
}

TEST_F(PeerRegions, OthersAreSentThroughTheRing) {
  File could_shrink(F_SEAL_GROW);
  File copied_on_write(F_SEAL_SHRINK);
  copied_on_write.map(copied_on_write.memory, MAP_PRIVATE);
  File closed(F_SEAL_SHRINK);
  ::close(closed.fd);
  closed.fd = -1;
  for (File* file : {&could_shrink, &copied_on_write, &closed}) {
    const uint32_t key = key_of(*file);
    EXPECT_FALSE(SharedRegion::of(key, file->memory, kBytes));
    for (const int value : {0x44, 0x55}) EXPECT_TRUE(arrives(*file, key, value));
    station.nic->deregister_memory(key);
  }
}

// The address says nothing: it may be another file's by now.
TEST_F(PeerRegions, AnotherFileInTheSamePlaceIsAnotherRegion) {
  File first(F_SEAL_SHRINK);
  uint32_t key = key_of(first);
  for (const int value : {0x11, 0x12}) EXPECT_TRUE(arrives(first, key, value));
  station.nic->deregister_memory(key);
  std::byte* const place = first.memory;
  for (int i = 0; i < 70; ++i) {  // more than there are slots
    File second(F_SEAL_SHRINK);
    munmap(second.memory, kBytes);
    second.map(place, MAP_SHARED);
    key = key_of(second);
    for (const int value : {0x21, 0x22}) EXPECT_TRUE(arrives(second, key, value));
    station.nic->deregister_memory(key);
  }
  first.map(nullptr, MAP_SHARED);
}

TEST_F(PeerRegions, MoreRegionsThanThereAreSlots) {
  const File file(F_SEAL_SHRINK);
  std::vector<uint32_t> keys;
  for (uint32_t i = 0; i < SharedRegions::kMax + 5; ++i) keys.push_back(key_of(file));
  EXPECT_TRUE(arrives(file, keys.back(), 0x61));
  EXPECT_TRUE(arrives(file, keys.front(), 0x62));
  for (const uint32_t key : keys) station.nic->deregister_memory(key);
  EXPECT_TRUE(eventually([&] { return !reads(other.pid(), file); }));
}

// The peer holds no more than there are slots, whatever comes before it has let go of the last.
TEST_F(PeerRegions, AllRegionsAreReplacedAtOnce) {
  std::vector<std::unique_ptr<File>> files;
  std::vector<uint32_t> keys(SharedRegions::kMax);
  for (uint32_t i = 0; i < SharedRegions::kMax; ++i)
    files.push_back(std::make_unique<File>(F_SEAL_SHRINK));
  for (int round = 1; round <= 3; ++round) {
    for (uint32_t i = 0; i < SharedRegions::kMax; ++i) keys[i] = key_of(*files[i]);
    for (uint32_t i = 0; i < SharedRegions::kMax; ++i)
      EXPECT_TRUE(arrives(*files[i], keys[i], round));
    for (const uint32_t key : keys) station.nic->deregister_memory(key);
  }
}

TEST(SharedRegion, NamesTheBytesOfItsFile) {
  const File file(F_SEAL_SHRINK);
  const auto region = SharedRegion::of(7, file.memory + 12345, 100'000);
  ASSERT_TRUE(region);
  EXPECT_EQ(region->key(), 7u);
  EXPECT_EQ(region->offer().offset, 12345u);
  EXPECT_EQ(region->offer().inode, file.info().st_ino);
  uint64_t at = 0;
  EXPECT_TRUE(region->covers(file.memory + 12345 + 99'000, 1000, &at));
  EXPECT_EQ(at, 99'000u);
  EXPECT_FALSE(region->covers(file.memory + 12345 + 99'000, 1001, &at));
  EXPECT_FALSE(region->covers(file.memory + 12344, 1, &at));
  const auto borrowed = PeerRegion::open(region->offer());
  ASSERT_TRUE(borrowed);
  file.memory[12345 + 5] = std::byte{9};
  EXPECT_EQ(*borrowed->at(5, 1), std::byte{9});
  EXPECT_EQ(borrowed->at(99'000, 1001), nullptr);
  EXPECT_EQ(borrowed->at(~uint64_t{0}, 2), nullptr);
  EXPECT_FALSE(SharedRegion::of(7, file.memory, SharedRegion::kLeastBytes - 1));
  EXPECT_FALSE(SharedRegion::of(7, file.memory, kBytes + 4096)) << "beyond the mapping";
}

TEST(SharedRegion, WhatIsNotAsOfferedIsNotBorrowed) {
  const File file(F_SEAL_SHRINK);
  const File could_shrink(0);
  const RegionDescriptor good = SharedRegion::of(7, file.memory, kBytes)->offer();
  // What SharedRegion kept open is closed; the file itself still is.
  const auto refused = [&](auto change) {
    RegionDescriptor offer = good;
    offer.fd = file.fd;
    change(offer);
    return !PeerRegion::open(offer);
  };
  EXPECT_FALSE(refused([](RegionDescriptor&) {}));
  EXPECT_TRUE(refused([](RegionDescriptor& o) { o.inode += 1; }));
  EXPECT_TRUE(refused([](RegionDescriptor& o) { o.device += 1; }));
  EXPECT_TRUE(refused([](RegionDescriptor& o) { o.bytes += 1; })) << "longer than the file";
  EXPECT_TRUE(refused([](RegionDescriptor& o) { o.bytes = 0; }));
  EXPECT_TRUE(refused([](RegionDescriptor& o) { o.offset = ~uint64_t{0} - 4095; })) << "wraps";
  EXPECT_TRUE(refused([](RegionDescriptor& o) { o.pid = 0; }));
  EXPECT_TRUE(refused([](RegionDescriptor& o) { o.fd = -1; }));
  EXPECT_TRUE(refused([](RegionDescriptor& o) { o.fd = 1 << 20; })) << "no such descriptor";
  EXPECT_TRUE(refused([&](RegionDescriptor& o) {
    o.fd = could_shrink.fd;
    o.inode = could_shrink.info().st_ino;
  }));
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  EXPECT_TRUE(refused([&](RegionDescriptor& o) {
    struct stat info {};
    fstat(ends[0], &info);
    o.fd = ends[0];
    o.inode = info.st_ino;
    o.device = info.st_dev;
  })) << "and does not wait for a writer";
  ::close(ends[0]);
  ::close(ends[1]);
}

}  // namespace peal::softnic::testing
