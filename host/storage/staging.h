// SPDX-License-Identifier: Apache-2.0
//
// A range of a file and memory of a GPU, where a stream makes the copies between memory and pinned
// buffers, and threads of the host move the bytes between buffers and file.
//
//   load   file -> buffer (a thread)   buffer -> memory (the stream, once it may)
//   save   memory -> buffer (the stream, while it may)   buffer -> file (a thread)
//
// Piece i uses buffer i modulo their number.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "host/memory/backing.h"
#include "host/memory/gpu.h"
#include "host/storage/direct_path.h"
#include "host/storage/file.h"
#include "host/storage/file_ranges.h"
#include "host/stream/executor.h"

namespace peal::storage {

/// Sets of pinned buffers, each for one transfer at a time. One is made when none that is free is
/// large enough, and kept: pinning and unpinning may wait for the GPU. Thread-safe.
class StagingPool {
 public:
  /// Transfers in pieces of `piece_bytes`, by `buffers` buffers.
  StagingPool(std::shared_ptr<Gpu> gpu, size_t buffers, size_t piece_bytes)
      : gpu_(std::move(gpu)), buffers_(buffers), piece_bytes_(piece_bytes) {}

  size_t buffers() const { return buffers_; }
  size_t piece_bytes() const { return piece_bytes_; }

 private:
  friend class Staging;
  Backing take(size_t bytes);
  void give_back(Backing set);

  const std::shared_ptr<Gpu> gpu_;
  const size_t buffers_;
  const size_t piece_bytes_;
  std::mutex mutex_;
  std::vector<Backing> free_;
};

/// The buffers of one transfer, which go back to their pool with it. `pool` outlives it.
class Staging {
 public:
  /// May wait for the GPU, which read() and write() never do.
  Staging(StagingPool& pool, uint64_t offset, const MemoryRange& memory);
  ~Staging() { pool_.give_back(std::move(set_)); }
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  /// What the stream has to do (HostTask), in the order of the pieces.
  std::vector<Copy> copies(bool reading) const;

  /// Fills the memory from the file; complete when all copies have been made. Throws as File does,
  /// or where the stream has failed.
  void read(File& file, StreamCopies& copies) const;
  /// Writes the memory into the file.
  void write(File& file, StreamCopies& copies) const;

 private:
  std::byte* buffer_of(const FileRange& piece) const;

  StagingPool& pool_;
  const uint64_t offset_;  // in the file
  const MemoryRange memory_;
  const FileRanges pieces_;
  const size_t buffer_bytes_;  // a piece, aligned as the file
  Backing set_;
};

/// What a transfer on a stream hands to the engine.
struct ByStream {
  const Staging& staging;
  StreamCopies& copies;
};

}  // namespace peal::storage
