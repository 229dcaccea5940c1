// SPDX-License-Identifier: Apache-2.0
#include "host/storage/direct_path.h"

#include <fmt/format.h>

#include <cerrno>
#include <utility>

#include "host/base/error.h"
#include "host/storage/file_ranges.h"

namespace peal::storage {

DirectPath::DirectPath(const std::string& setting, std::shared_ptr<Gpu> gpu)
    : gpu_(std::move(gpu)) {
  if (gpu_ == nullptr) {
    why_not_ = "no GPU";
    return;
  }
  cufile::LoadedCufile loaded = gpu_->within([&](const auto&) { return cufile::load(setting); });
  library_ = std::move(loaded.library);
  why_not_ = std::move(loaded.why_not);
}

DirectPath::~DirectPath() {
  for (const auto& [base, registered] : registered_) release(base, registered);
}

void DirectPath::release(const std::byte* base, const Registered& registered) {
  if (!registered.why_not.empty()) return;
  gpu_->release([&](const auto&) { library_->release_buffer(base); });
}

void DirectPath::prepare(const MemoryRange& memory) {
  // Without a whole it may be freed after the call.
  if (library_ == nullptr || memory.whole == nullptr) return;
  const std::lock_guard lock(mutex_);
  const auto found = registered_.find(memory.whole);
  if (found != registered_.end()) {
    if (found->second.bytes >= memory.whole_bytes) return;
    release(found->first, found->second);  // it has grown, or a larger window begins there
  }
  const cufile::CufileResult result = gpu_->within(
      [&](const auto&) { return library_->register_buffer(memory.whole, memory.whole_bytes, 0); });
  registered_[memory.whole] = {memory.whole_bytes,
                               result.code == cufile::kSuccess ? "" : cufile::text(result)};
}

void DirectPath::forget(const std::byte* whole) {
  const std::lock_guard lock(mutex_);
  const auto found = registered_.find(whole);
  if (found == registered_.end()) return;
  release(found->first, found->second);
  registered_.erase(found);
}

bool DirectPath::move(const Transfer& transfer) {
  if (library_ == nullptr || !transfer.memory.on_gpu) return false;
  why_not_ = gpu_->within([&](const auto&) -> std::string {
    const cufile::FileHandle handle(library_, transfer.file.descriptor());
    if (!handle.why_not().empty()) return handle.why_not();
    prepare(transfer.memory);
    return move_pieces(transfer, handle);
  });
  return why_not_.empty();
}

/// Why it was not done, or nothing.
std::string DirectPath::move_pieces(const Transfer& transfer,
                                    const cufile::FileHandle& handle) const {
  const MemoryRange& memory = transfer.memory;
  std::byte* const base = memory.whole != nullptr ? memory.whole : memory.address;
  const auto skip = static_cast<uint64_t>(memory.address - base);
  const auto move_one = [&](size_t, const FileRange& piece) {
    gpu_->within([&](const auto&) {
      for (size_t done = 0; done < piece.bytes;) {
        const auto from = static_cast<off_t>(transfer.offset + piece.at + done);
        const auto at = static_cast<off_t>(skip + piece.at + done);
        const size_t left = piece.bytes - done;
        const ssize_t moved = transfer.reading
                                  ? library_->read(handle.get(), base, left, from, at)
                                  : library_->write(handle.get(), base, left, from, at);
        if (moved > 0) {
          done += static_cast<size_t>(moved);
          continue;
        }
        const int error = errno;
        if (moved == -1 && error == EINTR) continue;
        // POSIX tries again and knows better words for what the disk has.
        fail(ErrorCode::kSystem, "{}: {}", transfer.reading ? "cuFileRead" : "cuFileWrite",
             moved == 0 ? "nothing moved" : cufile::text(moved, error));
      }
    });
  };
  try {
    const FileRanges pieces(transfer.offset, memory.bytes, transfer.piece_bytes);
    move_all(pieces, transfer.threads, move_one);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

std::string DirectPath::describe() const {
  if (library_ == nullptr) return fmt::format("cuFile: none ({})", why_not_);
  std::string told = why_not_.empty()
                         ? "cuFile: in use"
                         : fmt::format("cuFile: refused the last transfer ({})", why_not_);
  const std::lock_guard lock(mutex_);
  for (const auto& [base, registered] : registered_) {
    if (registered.why_not.empty()) continue;
    told += fmt::format(", memory at {} not registered ({})", fmt::ptr(base), registered.why_not);
  }
  return told;
}

}  // namespace peal::storage
