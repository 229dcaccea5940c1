// SPDX-License-Identifier: Apache-2.0
#include "host/storage/engine.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "host/base/error.h"
#include "host/memory/backing_cuda.h"

namespace peal::storage {
namespace {

constexpr size_t kMaxThreads = 64;
constexpr size_t kCompared = 1u << 20;  // bytes at once; a multiple of kBlock

EngineOptions checked(EngineOptions options) {
  if (options.threads < 1 || options.threads > kMaxThreads) {
    fail(ErrorCode::kInvalidArgument, "storage: {} threads: 1 to {}", options.threads, kMaxThreads);
  }
  if (options.piece_bytes == 0 || options.piece_bytes % kBlock != 0 ||
      options.piece_bytes > kMaxPiece) {
    fail(ErrorCode::kInvalidArgument, "storage: pieces of {} bytes: a multiple of {}, up to {}",
         options.piece_bytes, kBlock, kMaxPiece);
  }
  return options;
}

}  // namespace

Engine::Engine(EngineOptions options, std::shared_ptr<Gpu> gpu)
    : options_(checked(std::move(options))),
      gpu_(std::move(gpu)),
      staging_(gpu_, options_.threads, options_.piece_bytes),
      direct_path_(options_.cufile, gpu_) {
  for (auto& workers : buffers_) workers.resize(options_.threads);
}

void Engine::read(const Transfer& transfer) {
  const uint64_t there = transfer.file.bytes();
  const size_t asked = transfer.memory.bytes;
  if (transfer.offset > there || asked > there - transfer.offset) {
    fail(ErrorCode::kInvalidArgument,
         "read of {}: {} bytes at offset {} asked: the file has {} bytes", transfer.file.path(),
         asked, transfer.offset, there);
  }
  move(transfer, true);
}

void Engine::write(const Transfer& transfer) { move(transfer, false); }

void Engine::move(const Transfer& transfer, bool reading) {
  if (transfer.memory.on_gpu && gpu_ == nullptr) {
    fail(ErrorCode::kInvalidArgument, "storage: memory of a GPU at {}, and this PE uses none",
         fmt::ptr(transfer.memory.address));
  }
  if (transfer.stream != nullptr) {
    move_on_stream(transfer, reading);
  } else {
    const std::lock_guard lock(turn_);
    move_pieces(transfer, reading);
  }
}

void Engine::move_pieces(const Transfer& transfer, bool reading) {
  const MemoryRange& memory = transfer.memory;
  const size_t piece = transfer.piece_bytes != 0 ? transfer.piece_bytes : options_.piece_bytes;
  const size_t threads = options_.threads;
  if (memory.on_gpu && !transfer.view &&
      direct_path_.move({transfer.file, transfer.offset, memory, reading, piece, threads})) {
    tell(by_cufile_, memory.bytes, transfer.file.path() + ": by cuFile");
    return;
  }
  same_ = transfer.resumes;
  move_all(FileRanges(transfer.offset, memory.bytes, piece), threads,
           [&](size_t worker, const FileRange& one) {
             reading ? read_piece(transfer, worker, one) : write_piece(transfer, worker, one);
           });
  tell(by_posix_, memory.bytes, transfer.file.path() + ": " + transfer.file.describe());
}

void Engine::move_on_stream(const Transfer& transfer, bool reading) {
  const auto& [staging, copies] = *transfer.stream;
  reading ? staging.read(transfer.file, copies) : staging.write(transfer.file, copies);
  tell(by_posix_, transfer.memory.bytes,
       transfer.file.path() + ": on a stream, " + transfer.file.describe());
}

void Engine::tell(uint64_t& counter, size_t bytes, std::string last) {
  const std::lock_guard lock(told_mutex_);
  counter += bytes;
  last_ = std::move(last);
}

/// False: the file is read and written right there.
bool Engine::must_copy(const Transfer& transfer, const FileRange& piece) const {
  const auto address = reinterpret_cast<uintptr_t>(transfer.memory.address + piece.at);
  const bool aligned = (address - (transfer.offset + piece.at)) % kBlock == 0;
  return transfer.memory.on_gpu || (!aligned && transfer.file.direct());
}

/// Where the host has the bytes of a piece: memory itself, or a buffer that is aligned as the file.
std::byte* Engine::staging(const Transfer& transfer, size_t worker, const FileRange& piece) {
  if (!must_copy(transfer, piece)) return transfer.memory.address + piece.at;
  const size_t skew = (transfer.offset + piece.at) % kBlock;
  const Use use = transfer.memory.on_gpu ? Use::kPinned : Use::kHost;
  return buffer(worker, piece.bytes + skew, use) + skew;
}

void Engine::read_piece(const Transfer& transfer, size_t worker, const FileRange& piece) {
  std::byte* const memory = transfer.memory.address + piece.at;
  std::byte* const host = staging(transfer, worker, piece);
  transfer.file.read(transfer.offset + piece.at, host, piece.bytes);
  if (transfer.view) transfer.view(piece, {host, piece.bytes});
  if (host != memory) copy(memory, host, piece.bytes, transfer.memory.on_gpu);
}

void Engine::write_piece(const Transfer& transfer, size_t worker, const FileRange& piece) {
  const std::byte* const memory = transfer.memory.address + piece.at;
  std::byte* const host = staging(transfer, worker, piece);
  if (host != memory) copy(host, memory, piece.bytes, transfer.memory.on_gpu);
  if (transfer.view) transfer.view(piece, {host, piece.bytes});
  const uint64_t offset = transfer.offset + piece.at;
  if (same_ && holds(transfer.file, worker, offset, {host, piece.bytes})) return;
  same_ = false;
  transfer.file.write(offset, host, piece.bytes);
}

/// Whether the file has these bytes there. A disk that cannot say so has not.
bool Engine::holds(File& file, size_t worker, uint64_t offset, std::span<const std::byte> bytes) {
  std::byte* const there = buffer(worker, kCompared + kBlock, Use::kCompared) + offset % kBlock;
  try {
    for (size_t done = 0; done < bytes.size();) {
      const size_t part = std::min(kCompared, bytes.size() - done);
      file.read(offset + done, there, part);
      if (std::memcmp(there, bytes.data() + done, part) != 0) return false;
      done += part;
    }
  } catch (const Error&) {
    return false;
  }
  return true;
}

/// At least `bytes` at a multiple of kBlock, this worker's own. Made when first needed and kept:
/// pinning takes longer than reading a piece.
std::byte* Engine::buffer(size_t worker, size_t bytes, Use use) {
  std::optional<Backing>& mine = buffers_[static_cast<size_t>(use)][worker];
  if (!mine || mine->bytes() < bytes) {
    mine.reset();
    const size_t usual = use == Use::kCompared ? kCompared : options_.piece_bytes;
    const size_t room = std::max(bytes, usual + kBlock);
    mine.emplace(use == Use::kPinned ? make_pinned_backing(gpu_, room, "peal-storage")
                                     : make_host_backing(room, "peal-storage"));
  }
  return mine->address();
}

void Engine::copy(void* to, const void* from, size_t bytes, bool on_gpu) const {
  if (on_gpu) {
    gpu_->copy(to, from, bytes);
  } else {
    std::memcpy(to, from, bytes);
  }
}

std::string Engine::describe() const {
  const std::scoped_lock lock(turn_, told_mutex_);
  return fmt::format(
      "{}; POSIX: {} threads, pieces of {} bytes; {}; {} bytes by cuFile, {} by POSIX",
      direct_path_.describe(), options_.threads, options_.piece_bytes,
      last_.empty() ? "no transfer yet" : last_, by_cufile_, by_posix_);
}

}  // namespace peal::storage
