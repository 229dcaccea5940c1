// SPDX-License-Identifier: Apache-2.0
//
// The Runtime's calls that move files: they find the memory and leave the rest to host/storage.
#include <fmt/format.h>

#include "host/base/error.h"
#include "host/job/together.h"
#include "host/nvtx/range.h"
#include "host/runtime.h"
#include "host/runtime_parts.h"
#include "host/storage/checkpoint.h"
#include "host/storage/whole_files.h"

namespace peal {
namespace {

/// The same on all PEs: nobody is left in an exchange.
void refuse_masked(const LiveGroup& group, const char* call) {
  if (group.masked_pes().empty()) return;
  fail(ErrorCode::kUnsupported,
       "{}: {} PEs are masked, and a checkpoint has a part of every PE; save() a file for each PE",
       call, group.masked_pes().size());
}

}  // namespace

/// Made late: programs without files neither look for libcufile nor pin buffers.
storage::Engine& Runtime::Parts::files() {
  std::call_once(files_once, [&] { files_made.emplace(storage::EngineOptions{}, gpu); });
  return *files_made;
}

storage::Memory Runtime::Parts::memory_for(const char* call, const void* symmetric,
                                           size_t bytes) const {
  auto* const address = static_cast<std::byte*>(const_cast<void*>(symmetric));
  if (bytes == 0) return {address, 0};
  const Windows::Range* const range =
      detail::names_window(symmetric) ? nullptr : windows->find(symmetric, bytes).range;
  if (range == nullptr) {
    fail(ErrorCode::kInvalidArgument,
         "{}: {} bytes at {} lie in no part of the heap and in no window; use malloc(), or "
         "register_window() first",
         call, bytes, fmt::ptr(symmetric));
  }
  storage::Memory memory{address, bytes, gpu && gpu->holds(symmetric)};
  // Of what stays: a window may be unregistered and its memory given back.
  if (range->begin == heap->base()) {
    memory.whole = heap->base();
    memory.whole_bytes = heap->bytes();
  }
  return memory;
}

void Runtime::load(const std::string& path, uint64_t offset, void* symmetric, size_t bytes) {
  const nvtx::Range range("peal: load");
  const storage::Memory to = parts_->memory_for("load", symmetric, bytes);
  storage::load(parts_->files(), path, offset, to);
}

void Runtime::save(const std::string& path, const void* symmetric, size_t bytes) {
  const nvtx::Range range("peal: save");
  const storage::Memory from = parts_->memory_for("save", symmetric, bytes);
  storage::save(parts_->files(), path, from);
}

Runtime::FilePart Runtime::load_shard(const std::string& path, void* symmetric, size_t room,
                                      size_t unit) {
  const nvtx::Range range("peal: load_shard");
  const storage::Memory to = parts_->memory_for("load_shard", symmetric, room);
  const storage::Shard mine =
      storage::load_shard(parts_->files(), path, unit, my_pe(), n_pes(), to);
  return {mine.offset, mine.bytes};
}

void Runtime::save_checkpoint(const std::string& path, const void* symmetric, size_t bytes) {
  refuse_masked(parts_->group, "save_checkpoint");
  const Parts::CollectiveCall call(*parts_, "peal: save_checkpoint");
  const storage::Memory from = together(parts_->group, [&] {
    parts_->files();
    return parts_->memory_for("save_checkpoint", symmetric, bytes);
  });
  storage::save_checkpoint(parts_->files(), parts_->group, path, from);
}

void Runtime::load_checkpoint(const std::string& path, void* symmetric, size_t bytes) {
  refuse_masked(parts_->group, "load_checkpoint");
  const Parts::CollectiveCall call(*parts_, "peal: load_checkpoint");
  const storage::Memory to = together(parts_->group, [&] {
    parts_->files();
    return parts_->memory_for("load_checkpoint", symmetric, bytes);
  });
  storage::load_checkpoint(parts_->files(), parts_->group, path, to);
}

std::string Runtime::describe_storage() const { return parts_->files().describe(); }

}  // namespace peal
