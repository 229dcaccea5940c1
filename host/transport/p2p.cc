// SPDX-License-Identifier: Apache-2.0
//
// One exchange of offers (what a PE has, and how to get at it), then every PE helps itself. The
// owner does nothing: a PE that fails leaves nobody waiting.
#include "host/transport/p2p.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

namespace peal {
namespace {

// What a PE tells the others of its part of a window.
struct Offer {
  uint64_t address;  // in its process
  uint64_t bytes;
  uint64_t device;  // of the memfd: so that no other file is taken for it
  uint64_t inode;
  int64_t fd;  // -1 = cannot be shared
};

// One peer's part, mapped or refused.
struct Answer {
  PeerMemory::Mapping mapping;
  std::string how;
};

Answer refused(std::string why) { return {nullptr, std::move(why)}; }

Answer refused(const std::string& call, int error) {
  return refused(call + ": " + std::generic_category().message(error));
}

/// Opens descriptor `offer.fd` of process `pid`, if it still is what was offered.
Answer map_memfd(const Offer& offer, int64_t pid) {
  const std::string path = fmt::format("/proc/{}/fd/{}", pid, offer.fd);
  const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) return refused(fmt::format("open({})", path), errno);
  struct stat file {};
  if (::fstat(fd, &file) != 0 || file.st_dev != offer.device || file.st_ino != offer.inode) {
    ::close(fd);
    return refused(path + " is not what the PE offered");
  }
  void* const address = ::mmap(nullptr, offer.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  const int error = errno;
  ::close(fd);
  if (address == MAP_FAILED) return refused(fmt::format("mmap({})", path), error);
  const auto unmap = [bytes = offer.bytes](std::byte* begin) { ::munmap(begin, bytes); };
  return {PeerMemory::Mapping(static_cast<std::byte*>(address), unmap), "same host, shared memory"};
}

Answer borrow(const Offer& offer) {
  // The other PE is a thread of this process: nothing to map, nothing to end.
  auto* const address = reinterpret_cast<std::byte*>(offer.address);
  return {PeerMemory::Mapping(address, [](std::byte*) {}), "same process"};
}

Answer reach(const Offer& offer, const Place& here, const Place& there) {
  if (same_process(here, there)) return borrow(offer);
  if (!same_host(here, there)) return refused("other host");
  if (!same_pids(here, there)) return refused("same host, but another pid namespace");
  if (offer.fd < 0) return refused("memory that its process cannot share");
  return map_memfd(offer, there.pid);
}

Offer make_offer(std::byte* address, size_t bytes, int fd) {
  Offer offer{reinterpret_cast<uint64_t>(address), bytes, 0, 0, -1};
  struct stat file {};
  if (fd < 0 || ::fstat(fd, &file) != 0) return offer;
  offer.device = file.st_dev;
  offer.inode = file.st_ino;
  offer.fd = fd;
  return offer;
}

}  // namespace

P2p::P2p(Bootstrap& bootstrap, std::vector<Place> places)
    : bootstrap_(bootstrap), places_(std::move(places)) {}

PeerMemory P2p::map(std::byte* address, size_t bytes, int fd) {
  const std::vector<Offer> offers = gather(bootstrap_, make_offer(address, bytes, fd));
  const Place& here = places_[static_cast<size_t>(bootstrap_.rank())];
  PeerMemory memory;
  for (size_t pe = 0; pe < offers.size(); ++pe) {
    Answer answer = reach(offers[pe], here, places_[pe]);
    memory.direct.push_back(answer.mapping.get());
    memory.how.push_back(std::move(answer.how));
    memory.mappings.push_back(std::move(answer.mapping));
  }
  return memory;
}

}  // namespace peal
