// SPDX-License-Identifier: Apache-2.0
#include "host/storage/staging.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "host/memory/backing_cuda.h"

namespace peal::storage {
namespace {

/// Allows a copy, if there are so many, when it is left, by an exception too.
struct AllowsOnLeaving {
  StreamCopies& copies;
  size_t index;
  size_t count;
  ~AllowsOnLeaving() {
    if (index < count) copies.allow(index);
  }
};

/// Whole blocks for a piece that begins anywhere in one. A power of two, so that sets are used
/// again.
size_t bytes_of_buffer(size_t piece) {
  return std::bit_ceil((piece + kBlock - 1) / kBlock * kBlock) + kBlock;
}

}  // namespace

Backing StagingPool::take(size_t bytes) {
  {
    const std::lock_guard lock(mutex_);
    const auto found =
        std::ranges::find_if(free_, [&](const Backing& one) { return one.bytes() >= bytes; });
    if (found != free_.end()) {
      Backing taken = std::move(*found);
      free_.erase(found);
      return taken;
    }
  }
  return make_pinned_backing(gpu_, bytes, "peal-storage");
}

void StagingPool::give_back(Backing set) {
  const std::lock_guard lock(mutex_);
  free_.push_back(std::move(set));
}

Staging::Staging(StagingPool& pool, uint64_t offset, const MemoryRange& memory)
    : pool_(pool),
      offset_(offset),
      memory_(memory),
      pieces_(offset, memory.bytes, pool.piece_bytes()),
      buffer_bytes_(bytes_of_buffer(std::min(memory.bytes, pool.piece_bytes()))),
      set_(pool.take(std::clamp<size_t>(pieces_.count(), 1, pool.buffers()) * buffer_bytes_)) {}

/// Aligned as the piece is in the file.
std::byte* Staging::buffer_of(const FileRange& piece) const {
  const size_t skew = (offset_ + piece.at) % kBlock;
  return set_.address() + piece.index % pool_.buffers() * buffer_bytes_ + skew;
}

std::vector<Copy> Staging::copies(bool reading) const {
  std::vector<Copy> all;
  all.reserve(pieces_.count());
  for (size_t i = 0; i < pieces_.count(); ++i) {
    const FileRange piece = pieces_[i];
    std::byte* const memory = memory_.address + piece.at;
    std::byte* const buffer = buffer_of(piece);
    all.push_back(reading ? Copy{memory, buffer, piece.bytes} : Copy{buffer, memory, piece.bytes});
  }
  return all;
}

// Threads take pieces in their order, and allow what others wait for also when they fail: who waits
// for an earlier piece waits for a thread that goes on.
void Staging::read(File& file, StreamCopies& copies) const {
  const size_t buffers = pool_.buffers();
  move_all(pieces_, buffers, [&](size_t, const FileRange& piece) {
    const AllowsOnLeaving next{copies, piece.index, pieces_.count()};
    if (piece.index >= buffers) copies.wait(piece.index - buffers);
    file.read(offset_ + piece.at, buffer_of(piece), piece.bytes);
  });
}

void Staging::write(File& file, StreamCopies& copies) const {
  const size_t buffers = pool_.buffers();
  for (size_t i = 0; i < std::min(buffers, pieces_.count()); ++i) copies.allow(i);
  move_all(pieces_, buffers, [&](size_t, const FileRange& piece) {
    const AllowsOnLeaving next{copies, piece.index + buffers, pieces_.count()};
    copies.wait(piece.index);
    file.write(offset_ + piece.at, buffer_of(piece), piece.bytes);
  });
}

}  // namespace peal::storage
