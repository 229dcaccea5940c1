// SPDX-License-Identifier: Apache-2.0
#include "host/check/segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "host/base/error.h"

namespace peal::checking {
namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kMeetings = 1024;
constexpr uint32_t kSites = 1 << 16;  // a Slot has 16 bits for them
constexpr uint64_t kWordBudget = uint64_t{64} << 20;
constexpr uint64_t kProbes = 64;  // of a hash table, before it counts as full
constexpr uint64_t kMagic = 0x70656c2d6f726433;

uint64_t whole_pages(uint64_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

uint64_t bytes_of_chunks(const Segment::Shape& shape) {
  return whole_pages((shape.heap_bytes + kChunk - 1) / kChunk * sizeof(Chunk));
}

uint64_t bytes_of_cells(const Segment::Shape& shape) {
  return whole_pages(shape.heap_bytes / kGranule * kSlots * sizeof(uint64_t));
}

uint64_t mixed(uint64_t key) {
  key = (key ^ (key >> 31)) * 0x9e3779b97f4a7c15;
  return key ^ (key >> 29);
}

}  // namespace

struct Segment::Header {
  std::atomic<uint64_t> magic;
  uint64_t pes;
  uint64_t heap_bytes;
  std::atomic<uint32_t> sites;
  std::atomic<uint32_t> sees_plain;
  std::atomic<uint32_t> meeting_failed;
};

Segment::Plan Segment::plan(const Shape& shape) {
  const auto pes = static_cast<uint64_t>(shape.pes);
  const uint64_t matrix = pes * pes * sizeof(Stamp);
  Plan at{};
  at.word_count = 1024;
  while (at.word_count < 65536 && at.word_count * matrix < kWordBudget) at.word_count *= 2;
  uint64_t end = kPage;
  const auto take = [&end](uint64_t bytes) { return std::exchange(end, end + whole_pages(bytes)); };
  at.stamps = take(pes * sizeof(Stamp));
  at.fenced = take(matrix);
  at.puts = take(matrix);
  at.knowledge = take(pes * matrix);
  at.word_keys = take(at.word_count * sizeof(uint64_t));
  at.words = take(at.word_count * matrix);
  at.meeting_keys = take(kMeetings * 2 * sizeof(uint64_t));
  at.meetings = take(kMeetings * 2 * matrix);
  at.sites = take(kSites * sizeof(AccessSite));
  at.chunks = take(pes * bytes_of_chunks(shape));
  at.cells = take(pes * bytes_of_cells(shape));
  at.end = end;
  return at;
}

Segment Segment::create(const Shape& shape) {
  if (shape.pes < 1 || shape.pes > kMaxPes) {
    fail(ErrorCode::kUnsupported,
         "the order of accesses is checked among 1 to {} PEs of a host, and this one has {}: start "
         "fewer, or leave PEAL_CHECK off",
         kMaxPes, shape.pes);
  }
  Fd file(::memfd_create("peal-check", MFD_CLOEXEC));
  if (!file) fail_errno(errno, "memfd_create(peal-check)");
  const uint64_t bytes = plan(shape).end;
  if (::ftruncate(file.get(), static_cast<off_t>(bytes)) != 0) {
    fail_errno(errno, fmt::format("ftruncate(peal-check, {})", bytes));
  }
  Segment made(std::move(file), shape);
  made.header().pes = static_cast<uint64_t>(shape.pes);
  made.header().heap_bytes = shape.heap_bytes;
  made.header().sites.store(1, std::memory_order_relaxed);
  made.header().magic.store(kMagic, std::memory_order_release);
  return made;
}

Segment Segment::open(const PeerFile& from, const Shape& shape) {
  Fd file = open_peer_file(from, O_RDWR);
  if (!file) fail_errno(errno, fmt::format("open(the checker's memory of process {})", from.pid));
  struct stat found {};
  if (::fstat(file.get(), &found) != 0) fail_errno(errno, "fstat(the checker's memory)");
  if (static_cast<uint64_t>(found.st_size) != plan(shape).end) {
    fail(ErrorCode::kInvalidArgument,
         "the checker's memory of process {} has {} bytes, and {} PEs with heaps of {} bytes need "
         "{}: PEAL_HEAP_SIZE must be alike on all PEs",
         from.pid, found.st_size, shape.pes, shape.heap_bytes, plan(shape).end);
  }
  Segment opened(std::move(file), shape);
  if (opened.header().magic.load(std::memory_order_acquire) != kMagic) {
    fail(ErrorCode::kInvalidArgument, "file {} of process {} is not the checker's memory", from.fd,
         from.pid);
  }
  return opened;
}

Segment::Segment(Fd file, const Shape& shape)
    : shape_(shape), plan_(plan(shape)), file_(std::move(file)) {
  const uint64_t bytes = plan_.end;
  void* const mapped =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file_.get(), 0);
  if (mapped == MAP_FAILED) fail_errno(errno, fmt::format("mmap(peal-check, {} bytes)", bytes));
  base_ = {static_cast<std::byte*>(mapped), Unmap{bytes}};
}

void Segment::Unmap::operator()(std::byte* base) const { ::munmap(base, bytes); }

PeerFile Segment::file() const {
  struct stat found {};
  if (::fstat(file_.get(), &found) != 0) fail_errno(errno, "fstat(the checker's memory)");
  return {::getpid(), file_.get(), found.st_dev, found.st_ino};
}

Knowledge Segment::matrix(uint64_t first, uint64_t number) const {
  const auto pes = static_cast<uint64_t>(shape_.pes);
  return {part<Stamp>(first + number * pes * pes * sizeof(Stamp)), shape_.pes};
}

// In a hash table of `count` keys, with a matrix for each from `first` on.
Segment::Released Segment::look_up(uint64_t keys, uint64_t first, uint64_t count, uint64_t key,
                                   bool make) const {
  uint64_t at = mixed(key) % count;
  for (uint64_t probe = 0; probe < kProbes; ++probe, at = (at + 1) % count) {
    std::atomic<uint64_t>& there = part<std::atomic<uint64_t>>(keys)[at];
    uint64_t seen = there.load(std::memory_order_acquire);
    if (seen == 0 && !make) return {false, false, matrix(first, 0)};
    if (seen == 0 && there.compare_exchange_strong(seen, key)) seen = key;
    if (seen == key) return {true, false, matrix(first, at)};
  }
  return {false, true, matrix(first, 0)};
}

Segment::Released Segment::word(int owner, uint64_t offset, bool make) const {
  return look_up(plan_.word_keys, plan_.words, plan_.word_count,
                 (static_cast<uint64_t>(owner) + 1) << 56 | offset, make);
}

Segment::Released Segment::meeting(uint64_t key, int parity) const {
  return look_up(plan_.meeting_keys, plan_.meetings, kMeetings * 2,
                 key << 1 | static_cast<uint64_t>(parity), true);
}

uint16_t Segment::new_site() const {
  uint32_t taken = header().sites.load(std::memory_order_relaxed);
  while (taken < kSites && !header().sites.compare_exchange_weak(taken, taken + 1)) {
  }
  return taken < kSites ? static_cast<uint16_t>(taken) : uint16_t{0};
}

bool Segment::short_of_sites() const {
  return header().sites.load(std::memory_order_relaxed) > kSites / 2;
}

std::atomic<uint64_t>* Segment::cells(int owner) const {
  return part<std::atomic<uint64_t>>(plan_.cells +
                                     static_cast<uint64_t>(owner) * bytes_of_cells(shape_));
}

HeapShadow Segment::shadow(int owner) const {
  const uint64_t each = bytes_of_chunks(shape_);
  return {cells(owner), part<Chunk>(plan_.chunks + static_cast<uint64_t>(owner) * each)};
}

std::atomic<uint32_t>& Segment::sees_plain() const { return header().sees_plain; }
std::atomic<uint32_t>& Segment::meeting_failed() const { return header().meeting_failed; }

}  // namespace peal::checking
