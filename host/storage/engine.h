// SPDX-License-Identifier: Apache-2.0
//
// Moves bytes between files and memory of this PE, wherever that lies.
//
//   host memory, aligned as the file     pread / pwrite right there, on a few threads
//   host memory else                     the same by a buffer of each thread
//   a GPU's                              cuFile where it is, else pinned buffers: one thread copies
//                                        to the GPU while others read
//   a GPU's, on a stream                 pinned buffers, copied by the stream (staging.h)
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "host/memory/backing.h"
#include "host/memory/gpu.h"
#include "host/storage/direct_path.h"
#include "host/storage/file.h"
#include "host/storage/file_ranges.h"
#include "host/storage/staging.h"

namespace peal::storage {

struct EngineOptions {
  size_t threads = 4;                         // that read or write at the same time; 1 to 64
  size_t piece_bytes = 4u << 20;              // of one system call; a multiple of kBlock
  bool direct = true;                         // O_DIRECT where the file system takes it
  std::string cufile = "auto";                // PEAL_CUFILE
  const SystemCalls* calls = &linux_calls();  // all that are made on files
};

/// The largest piece that the engine takes.
inline constexpr size_t kMaxPiece = 256u << 20;

/// One transfer at a time, but for those on streams; a second thread's waits for the first.
class Engine {
 public:
  /// `gpu` null: all memory is the host's. Throws kInvalidArgument for options out of range.
  explicit Engine(EngineOptions options, std::shared_ptr<Gpu> gpu = nullptr);

  const EngineOptions& options() const { return options_; }
  const SystemCalls& calls() const { return *options_.calls; }

  /// Called by the engine's threads with each piece in host memory: before it is written, or after
  /// it was read. A transfer with a view never goes by cuFile. What it throws ends the transfer.
  using View = std::function<void(const FileRange&, std::span<const std::byte>)>;

  struct Transfer {
    File& file;
    uint64_t offset;  // in the file
    MemoryRange memory;
    size_t piece_bytes = 0;  // 0: the engine's
    View view = nullptr;
    /// A write leaves what the file holds already as it is, until a piece differs; from there on
    /// it writes all without looking.
    bool resumes = false;
    /// Not null: a stream copies, memory is a GPU's, and nothing of CUDA is called here. Without a
    /// view, and nothing is resumed.
    const ByStream* stream = nullptr;
  };

  /// Fills memory with the file's bytes at offset. Throws kInvalidArgument where the file ends
  /// before (nothing is read then), kSystem where the disk fails; memory is undefined then.
  void read(const Transfer& transfer);

  /// Writes memory into the file at offset; it must not change meanwhile. File::sync() puts it on
  /// the disk. Throws kSystem; the file is undefined then.
  void write(const Transfer& transfer);

  /// Buffers for a transfer of a GPU's memory on a stream. May wait for the GPU.
  std::shared_ptr<Staging> stage(uint64_t offset, const MemoryRange& memory) {
    return std::make_shared<Staging>(staging_, offset, memory);
  }

  /// What begins at `whole` (Memory::whole) ends; no transfer of it is under way.
  void forget(const std::byte* whole) { direct_path_.forget(whole); }

  /// For people: which way the last transfer took and why, and bytes so far by each.
  std::string describe() const;

 private:
  /// What a buffer is for: memory of the host, a GPU's, or to compare with.
  enum class Use : size_t { kHost, kPinned, kCompared };
  void move(const Transfer& transfer, bool reading);
  void move_pieces(const Transfer& transfer, bool reading);
  void move_on_stream(const Transfer& transfer, bool reading);
  void tell(uint64_t& counter, size_t bytes, std::string last);
  void read_piece(const Transfer& transfer, size_t worker, const FileRange& piece);
  void write_piece(const Transfer& transfer, size_t worker, const FileRange& piece);
  bool must_copy(const Transfer& transfer, const FileRange& piece) const;
  std::byte* staging(const Transfer& transfer, size_t worker, const FileRange& piece);
  bool holds(File& file, size_t worker, uint64_t offset, std::span<const std::byte> bytes);
  std::byte* buffer(size_t worker, size_t bytes, Use use);
  void copy(void* to, const void* from, size_t bytes, bool on_gpu) const;

  const EngineOptions options_;
  const std::shared_ptr<Gpu> gpu_;
  StagingPool staging_;
  mutable std::mutex turn_;  // held during a transfer but those on streams; guards what follows
  DirectPath direct_path_;
  std::array<std::vector<std::optional<Backing>>, 3> buffers_;  // by use and worker
  std::atomic<bool> same_ = false;  // what was compared so far, of a transfer that resumes
  mutable std::mutex told_mutex_;   // guards what follows
  std::string last_;                // file and how it was reached
  uint64_t by_cufile_ = 0;
  uint64_t by_posix_ = 0;
};

}  // namespace peal::storage
