// SPDX-License-Identifier: Apache-2.0
//
// Host pages between processes. The owner does nothing for it, so it need not even be running.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "base/peer_file.h"
#include "host/transport/share.h"

namespace peal {
namespace {

Answer refused_by(const std::string& call, int error) {
  return refused(call + ": " + std::generic_category().message(error));
}

/// Opens descriptor `offer.fd` of process `pid`, if it still is what was offered.
Answer map_memfd(const Offer& offer, int64_t pid) {
  const std::string path = fmt::format("/proc/{}/fd/{}", pid, offer.fd);
  const Fd file = open_peer_file({pid, offer.fd, offer.file_device, offer.file_inode}, O_RDWR);
  if (!file && errno == ESTALE) return refused(path + " is not what the PE offered");
  if (!file) return refused_by(fmt::format("open({})", path), errno);
  void* const address =
      ::mmap(nullptr, offer.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (address == MAP_FAILED) return refused_by(fmt::format("mmap({})", path), errno);
  const auto unmap = [bytes = offer.bytes](std::byte* begin) { ::munmap(begin, bytes); };
  return {PeerMemory::Mapping(static_cast<std::byte*>(address), unmap), "same host, shared memory"};
}

}  // namespace

Offer offer_pages(std::byte* address, size_t bytes, int fd) {
  Offer offer{};
  offer.address = reinterpret_cast<uint64_t>(address);
  offer.bytes = bytes;
  offer.fd = -1;
  offer.kind = Offer::Kind::kPages;
  struct stat file {};
  if (fd < 0 || ::fstat(fd, &file) != 0) return offer;
  offer.file_device = file.st_dev;
  offer.file_inode = file.st_ino;
  offer.fd = fd;
  return offer;
}

Answer reach_pages(const Offer& offer, const Place& here, const Place& there) {
  if (same_process(here, there)) return {borrowed(offer), "same process"};
  if (!same_host(here, there)) return refused("other host");
  if (!same_pids(here, there)) {
    return kept_apart(
        "same host, but another pid namespace; start the containers with one (--pid=host)");
  }
  if (offer.fd < 0) return refused("memory that its process cannot share");
  return map_memfd(offer, there.pid);
}

}  // namespace peal
