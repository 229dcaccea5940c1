// SPDX-License-Identifier: Apache-2.0
//
// Host pages between processes, by the file behind them. The owner does nothing for it, so it need
// not even be running.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "base/peer_file.h"
#include "host/job/together.h"
#include "host/memory/shared_pages.h"
#include "host/transport/share.h"

namespace peal {
namespace {

ReachedPart refused_by(const std::string& call, int error) {
  return refused(call + ": " + std::generic_category().message(error));
}

/// Opens descriptor `offer.fd` of process `pid`, if it still is what was offered. What was offered
/// may begin and end anywhere in a page of the file.
ReachedPart map_file(const PartDescriptor& offer, int64_t pid) {
  const std::string path = fmt::format("/proc/{}/fd/{}", pid, offer.fd);
  const Fd file = open_peer_file({pid, offer.fd, offer.file_device, offer.file_inode}, O_RDWR);
  if (!file && errno == ESTALE) return refused(path + " is not what the PE offered");
  if (!file) return refused_by(fmt::format("open({})", path), errno);
  const size_t page = page_bytes(file);
  const size_t before = offer.offset % page;
  const size_t length = (before + offer.bytes + page - 1) / page * page;
  void* const address = ::mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(),
                               static_cast<off_t>(offer.offset - before));
  if (address == MAP_FAILED) return refused_by(fmt::format("mmap({})", path), errno);
  const auto unmap = [before, length](std::byte* part) { ::munmap(part - before, length); };
  return {PeerMemory::Mapping(static_cast<std::byte*>(address) + before, unmap),
          "same host, shared memory"};
}

}  // namespace

void say(PartDescriptor& offer, const std::string& why) {
  const size_t bytes = std::min(why.size(), offer.why.size() - 1);
  std::copy_n(why.data(), bytes, offer.why.data());
  offer.why[bytes] = 0;
}

PartDescriptor offer_pages(std::byte* address, size_t bytes, int fd) {
  PartDescriptor offer{};
  offer.address = reinterpret_cast<uint64_t>(address);
  offer.bytes = bytes;
  offer.fd = -1;
  offer.kind = PartDescriptor::Kind::kPages;
  struct stat file {};
  if (fd < 0 || ::fstat(fd, &file) != 0) return offer;
  offer.file_device = file.st_dev;
  offer.file_inode = file.st_ino;
  offer.fd = fd;
  return offer;
}

PartDescriptor offer_any_pages(std::byte* address, size_t bytes, Fd* file) {
  SharedPages pages;
  const auto failure = failure_of([&] { pages = find_shared_pages(address, bytes); });
  PartDescriptor offer = offer_pages(address, bytes, pages.file.get());
  offer.offset = pages.offset;
  if (failure) say(offer, failure->error.what());
  *file = std::move(pages.file);
  return offer;
}

ReachedPart reach_pages(const PartDescriptor& offer, const Place& here, const Place& there) {
  if (same_process(here, there)) return {borrowed(offer), "same process"};
  if (!same_host(here, there)) return refused("other host");
  if (!same_pids(here, there)) {
    return kept_apart(
        "same host, but another pid namespace; start the containers with one (--pid=host)");
  }
  if (offer.fd < 0) return refused(offer.why.data());
  return map_file(offer, there.pid);
}

}  // namespace peal
