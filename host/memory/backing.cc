// SPDX-License-Identifier: Apache-2.0
//
// Host memory: a memfd, so that a transport can map the same pages in another process.
#include "host/memory/backing.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/fd.h"
#include "host/base/config.h"
#include "host/base/error.h"
#include "host/memory/host_view.h"
#include "simt/simulation/simulation.h"

namespace peal {
namespace {

void release_host(const Backing::Block& block) noexcept {
  if (simt::in_simulation()) simt::model().forget(block.address);
  ::munmap(block.address, block.bytes);
  ::close(block.fd);
}

constexpr Backing::Operations kHostOperations{.release = release_host};

[[noreturn]] void refuse_memory(size_t bytes, const std::string& name, const std::string& cause) {
  fail(ErrorCode::kOutOfMemory,
       "no {} bytes ({}) of host memory for {}: {}; ask for less (PEAL_HEAP_SIZE, PEAL_QUEUES, "
       "PEAL_QUEUE_DEPTH) or start fewer PEs on this machine",
       bytes, format_size(bytes), name, cause);
}

/// Maps `bytes` of `fd` at a multiple of Backing::kAlignment; nullptr with errno set.
std::byte* map_aligned(int fd, size_t bytes) {
  // Take more address space than needed, map over its aligned part, give back the rest.
  const size_t span = bytes + Backing::kAlignment;
  void* const taken =
      ::mmap(nullptr, span, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (taken == MAP_FAILED) return nullptr;
  std::byte* const begin = static_cast<std::byte*>(taken);
  const size_t head = -reinterpret_cast<uintptr_t>(begin) % Backing::kAlignment;
  std::byte* const aligned = begin + head;
  if (::mmap(aligned, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED) {
    const int error = errno;
    ::munmap(taken, span);
    errno = error;
    return nullptr;
  }
  if (head > 0) ::munmap(begin, head);
  ::munmap(aligned + bytes, Backing::kAlignment - head);
  return aligned;
}

}  // namespace

Backing::Backing(Backing&& other) noexcept
    : block_(std::exchange(other.block_, Block{})), operations_(other.operations_) {}

Backing& Backing::operator=(Backing&& other) noexcept {
  if (this != &other) {
    reset();
    block_ = std::exchange(other.block_, Block{});
    operations_ = other.operations_;
  }
  return *this;
}

void Backing::reset() noexcept {
  block_.view.reset();  // no page of it stays mapped behind its end
  if (block_.address) operations_->release(block_);
  block_ = Block{};
}

void Backing::zero(size_t offset, size_t bytes) {
  if (offset > block_.bytes || bytes > block_.bytes - offset) {
    fail(ErrorCode::kInvalidArgument, "zero [{}, {} + {}): outside the {} bytes of this memory",
         offset, offset, bytes, block_.bytes);
  }
  if (bytes == 0) return;
  if (block_.host_accessible) {
    std::memset(block_.address + offset, 0, bytes);
  } else {
    operations_->zero(block_, block_.address + offset, bytes);
  }
}

void Backing::copy(void* to, const void* from, size_t bytes) const {
  if (bytes == 0) return;
  if (block_.host_accessible) {
    std::memcpy(to, from, bytes);
  } else if (!block_.view || !block_.view->copy(to, from, bytes)) {
    copy_by_stream(to, from, bytes);
  }
}

void Backing::copy_by_stream(void* to, const void* from, size_t bytes) const {
  const Copy copy{to, from, bytes};
  operations_->copy(block_, {&copy, 1});
}

bool Backing::reaches(const void* at, size_t bytes) const {
  if (!block_.host_accessible) return block_.view && block_.view->reaches(at, bytes);
  const size_t offset = reinterpret_cast<uintptr_t>(at) - reinterpret_cast<uintptr_t>(address());
  return offset < block_.bytes && bytes <= block_.bytes - offset;
}

template <class Word>
Word Backing::load(const Word* word) const {
  if (block_.host_accessible) return __atomic_load_n(word, __ATOMIC_ACQUIRE);
  Word value = 0;
  if (block_.view && block_.view->load(&value, word, 1)) return value;
  copy_by_stream(&value, word, sizeof(value));
  return value;
}
uint32_t Backing::load_word(const uint32_t* word) const { return load(word); }
uint64_t Backing::load_word(const uint64_t* word) const { return load(word); }

void Backing::load_words(uint64_t* to, const uint64_t* from, size_t count) const {
  if (!block_.host_accessible) {
    if (block_.view && block_.view->load(to, from, count)) return;
    return copy_by_stream(to, from, count * sizeof(*to));
  }
  for (size_t i = count; i-- > 0;) to[i] = __atomic_load_n(from + i, __ATOMIC_ACQUIRE);
}

template <class Word>
void Backing::store(Word* word, Word value) const {
  if (block_.host_accessible) return __atomic_store_n(word, value, __ATOMIC_RELEASE);
  if (block_.view && block_.view->store(word, &value, 1)) return;
  copy_by_stream(word, &value, sizeof(value));
}
void Backing::store_word(uint32_t* word, uint32_t value) const { store(word, value); }
void Backing::store_word(uint64_t* word, uint64_t value) const { store(word, value); }

void Backing::store_words(uint64_t* to, const uint64_t* from, size_t count) const {
  if (!block_.host_accessible) {
    if (block_.view && block_.view->store(to, from, count)) return;
    return copy_by_stream(to, from, count * sizeof(*to));
  }
  for (size_t i = 0; i < count; ++i) __atomic_store_n(to + i, from[i], __ATOMIC_RELEASE);
}

void Backing::store_in_order(std::span<const Copy> stores) const {
  if (!block_.host_accessible && !block_.view) return operations_->copy(block_, stores);
  for (const Copy& one : stores) {
    const auto* const halves = static_cast<const uint32_t*>(one.from);
    if ((reinterpret_cast<uintptr_t>(one.to) | one.bytes) % sizeof(uint64_t) == 0) {
      store_words(static_cast<uint64_t*>(one.to), static_cast<const uint64_t*>(one.from),
                  one.bytes / sizeof(uint64_t));
      continue;
    }
    for (size_t i = 0; i < one.bytes / sizeof(uint32_t); ++i) {
      store(static_cast<uint32_t*>(one.to) + i, halves[i]);
    }
  }
}

Backing make_host_backing(size_t bytes, const std::string& name) {
  if (bytes == 0) fail(ErrorCode::kInvalidArgument, "host memory for {}: 0 bytes asked", name);
  const size_t page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  const size_t machine = static_cast<size_t>(::sysconf(_SC_PHYS_PAGES)) * page;
  // The kernel would promise any size and kill the process on first use.
  if (bytes > machine) {
    refuse_memory(bytes, name, fmt::format("this machine has {} bytes in all", machine));
  }
  const size_t rounded = (bytes + page - 1) / page * page;

  Fd file(::memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file) fail_errno(errno, "memfd_create(" + name + ")");
  if (::ftruncate(file.get(), static_cast<off_t>(rounded)) != 0) {
    refuse_memory(bytes, name, std::strerror(errno));
  }
  // Who maps it in another process may rely on it. Without seals (an old kernel) that only copies.
  static_cast<void>(::fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK));
  std::byte* const address = map_aligned(file.get(), rounded);
  if (!address) refuse_memory(bytes, name, std::strerror(errno));
  if (simt::in_simulation()) simt::model().adopt(address, rounded, simt::name_in_model(name));
  return Backing({address, rounded, file.release(), true}, kHostOperations);
}

}  // namespace peal
