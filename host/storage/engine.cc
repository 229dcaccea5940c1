// SPDX-License-Identifier: Apache-2.0
#include "host/storage/engine.h"

#include <cstring>
#include <utility>

#include "host/base/error.h"
#include "host/memory/backing_cuda.h"

namespace peal::storage {
namespace {

constexpr size_t kMaxThreads = 64;

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
      direct_path_(options_.cufile, gpu_),
      host_buffers_(options_.threads),
      pinned_buffers_(options_.threads) {}

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
  const std::lock_guard lock(mutex_);
  const Memory& memory = transfer.memory;
  if (memory.on_gpu && gpu_ == nullptr) {
    fail(ErrorCode::kInvalidArgument, "storage: memory of a GPU at {}, and this PE uses none",
         fmt::ptr(memory.address));
  }
  const size_t piece = transfer.piece_bytes != 0 ? transfer.piece_bytes : options_.piece_bytes;
  const size_t threads = options_.threads;
  if (memory.on_gpu && !transfer.view &&
      direct_path_.move({transfer.file, transfer.offset, memory, reading, piece, threads})) {
    by_cufile_ += memory.bytes;
    last_ = transfer.file.path() + ": by cuFile";
    return;
  }
  move_all(Pieces(transfer.offset, memory.bytes, piece), threads,
           [&](size_t worker, const Piece& one) { move_piece(transfer, reading, worker, one); });
  by_posix_ += memory.bytes;
  last_ = fmt::format("{}: {}", transfer.file.path(), transfer.file.describe());
}

void Engine::move_piece(const Transfer& transfer, bool reading, size_t worker, const Piece& piece) {
  std::byte* const memory = transfer.memory.address + piece.at;
  const bool on_gpu = transfer.memory.on_gpu;
  const uint64_t offset = transfer.offset + piece.at;
  const size_t skew = offset % kBlock;
  const bool aligned = reinterpret_cast<uintptr_t>(memory) % kBlock == skew;
  const bool there = !on_gpu && (aligned || !transfer.file.direct());
  std::byte* const host = there ? memory : buffer(worker, piece.bytes + skew, on_gpu) + skew;
  if (reading) {
    transfer.file.read(offset, host, piece.bytes);
  } else if (host != memory) {
    copy(host, memory, piece.bytes, on_gpu);
  }
  if (transfer.view) transfer.view(piece, {host, piece.bytes});
  if (!reading) {
    transfer.file.write(offset, host, piece.bytes);
  } else if (host != memory) {
    copy(memory, host, piece.bytes, on_gpu);
  }
}

void Engine::prepare(const Memory& memory) {
  if (!memory.on_gpu) return;
  std::call_once(pinned_once_, [&] {
    const std::lock_guard lock(mutex_);
    for (size_t worker = 0; worker < options_.threads; ++worker) buffer(worker, 1, true);
  });
  direct_path_.prepare(memory);
}

/// At least `bytes` at a multiple of kBlock, this worker's own. Made when first needed and kept:
/// pinning takes longer than reading a piece.
std::byte* Engine::buffer(size_t worker, size_t bytes, bool pinned) {
  std::optional<Backing>& mine = pinned ? pinned_buffers_[worker] : host_buffers_[worker];
  if (!mine || mine->bytes() < bytes) {
    mine.reset();
    const size_t room = std::max(bytes, options_.piece_bytes + kBlock);
    mine.emplace(pinned ? make_pinned_backing(gpu_, room, "peal-storage")
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
  const std::lock_guard lock(mutex_);
  return fmt::format(
      "{}; POSIX: {} threads, pieces of {} bytes; {}; {} bytes by cuFile, {} by POSIX",
      direct_path_.describe(), options_.threads, options_.piece_bytes,
      last_.empty() ? "no transfer yet" : last_, by_cufile_, by_posix_);
}

}  // namespace peal::storage
