// SPDX-License-Identifier: Apache-2.0
#include "host/check/segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
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

uint64_t bytes_of_chunks(uint64_t heap_bytes) {
  return whole_pages((heap_bytes + kChunk - 1) / kChunk * sizeof(Chunk));
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

// Where each part begins.
struct Segment::Plan {
  uint64_t stamps, fenced, puts, knowledge, word_keys, words, meeting_keys, meetings, sites, chunks,
      cells, end;
  uint64_t word_count;
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
  at.chunks = take(pes * bytes_of_chunks(shape.heap_bytes));
  at.cells = take(pes * whole_pages(shape.heap_bytes / kGranule * kSlots * sizeof(uint64_t)));
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
  made.header_->pes = static_cast<uint64_t>(shape.pes);
  made.header_->heap_bytes = shape.heap_bytes;
  made.header_->sites.store(1, std::memory_order_relaxed);
  made.header_->magic.store(kMagic, std::memory_order_release);
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
  if (opened.header_->magic.load(std::memory_order_acquire) != kMagic) {
    fail(ErrorCode::kInvalidArgument, "file {} of process {} is not the checker's memory", from.fd,
         from.pid);
  }
  return opened;
}

Segment::Segment(Fd file, const Shape& shape) : shape_(shape), file_(std::move(file)) {
  const Plan at = plan(shape);
  bytes_ = at.end;
  void* const mapped =
      ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file_.get(), 0);
  if (mapped == MAP_FAILED) fail_errno(errno, fmt::format("mmap(peal-check, {} bytes)", bytes_));
  base_ = static_cast<std::byte*>(mapped);
  header_ = reinterpret_cast<Header*>(base_);
  stamps_ = reinterpret_cast<Stamp*>(base_ + at.stamps);
  fenced_ = reinterpret_cast<Stamp*>(base_ + at.fenced);
  puts_ = reinterpret_cast<Stamp*>(base_ + at.puts);
  knowledge_ = base_ + at.knowledge;
  word_keys_ = reinterpret_cast<std::atomic<uint64_t>*>(base_ + at.word_keys);
  words_ = base_ + at.words;
  word_count_ = at.word_count;
  meeting_keys_ = reinterpret_cast<std::atomic<uint64_t>*>(base_ + at.meeting_keys);
  meetings_ = base_ + at.meetings;
  sites_ = reinterpret_cast<AccessSite*>(base_ + at.sites);
  chunks_ = base_ + at.chunks;
  cells_ = base_ + at.cells;
}

Segment::Segment(Segment&& other) noexcept
    : shape_(other.shape_),
      file_(std::move(other.file_)),
      base_(std::exchange(other.base_, nullptr)),
      bytes_(other.bytes_),
      header_(other.header_),
      stamps_(other.stamps_),
      fenced_(other.fenced_),
      puts_(other.puts_),
      knowledge_(other.knowledge_),
      word_keys_(other.word_keys_),
      words_(other.words_),
      word_count_(other.word_count_),
      meeting_keys_(other.meeting_keys_),
      meetings_(other.meetings_),
      sites_(other.sites_),
      chunks_(other.chunks_),
      cells_(other.cells_) {}

Segment::~Segment() {
  if (base_ != nullptr) ::munmap(base_, bytes_);
}

PeerFile Segment::file() const {
  struct stat found {};
  if (::fstat(file_.get(), &found) != 0) fail_errno(errno, "fstat(the checker's memory)");
  return {::getpid(), file_.get(), found.st_dev, found.st_ino};
}

Knowledge Segment::matrix(std::byte* first, uint64_t number) const {
  const auto pes = static_cast<uint64_t>(shape_.pes);
  return {reinterpret_cast<Stamp*>(first + number * pes * pes * sizeof(Stamp)), shape_.pes};
}

Segment::Released Segment::look_up(std::atomic<uint64_t>* keys, uint64_t count, uint64_t key,
                                   bool make) const {
  std::byte* const first = keys == word_keys_ ? words_ : meetings_;
  uint64_t at = mixed(key) % count;
  for (uint64_t probe = 0; probe < kProbes; ++probe, at = (at + 1) % count) {
    uint64_t seen = keys[at].load(std::memory_order_acquire);
    if (seen == 0 && !make) return {false, false, matrix(first, 0)};
    if (seen == 0 && keys[at].compare_exchange_strong(seen, key)) seen = key;
    if (seen == key) return {true, false, matrix(first, at)};
  }
  return {false, true, matrix(first, 0)};
}

Segment::Released Segment::word(int owner, uint64_t offset, bool make) const {
  return look_up(word_keys_, word_count_, (static_cast<uint64_t>(owner) + 1) << 56 | offset, make);
}

Segment::Released Segment::meeting(uint64_t key, int parity) const {
  return look_up(meeting_keys_, kMeetings * 2, key << 1 | static_cast<uint64_t>(parity), true);
}

uint16_t Segment::new_site() const {
  uint32_t taken = header_->sites.load(std::memory_order_relaxed);
  while (taken < kSites && !header_->sites.compare_exchange_weak(taken, taken + 1)) {
  }
  return taken < kSites ? static_cast<uint16_t>(taken) : uint16_t{0};
}

bool Segment::short_of_sites() const {
  return header_->sites.load(std::memory_order_relaxed) > kSites / 2;
}

std::atomic<uint64_t>* Segment::cells(int owner) const {
  const uint64_t each = whole_pages(shape_.heap_bytes / kGranule * kSlots * sizeof(uint64_t));
  return reinterpret_cast<std::atomic<uint64_t>*>(cells_ + static_cast<uint64_t>(owner) * each);
}

HeapShadow Segment::shadow(int owner) const {
  const uint64_t each = bytes_of_chunks(shape_.heap_bytes);
  std::byte* const first = chunks_ + static_cast<uint64_t>(owner) * each;
  return {cells(owner), reinterpret_cast<Chunk*>(first)};
}

std::atomic<uint32_t>& Segment::sees_plain() const { return header_->sees_plain; }
std::atomic<uint32_t>& Segment::meeting_failed() const { return header_->meeting_failed; }

}  // namespace peal::checking
