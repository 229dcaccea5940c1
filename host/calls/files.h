// SPDX-License-Identifier: Apache-2.0
//
// The files of a Runtime: which of its memory a call names, and the engine that moves the bytes.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "host/calls.h"
#include "host/contexts/context_owner.h"
#include "host/memory/gpu.h"
#include "host/storage/engine.h"
#include "host/stream/executor.h"
#include "host/windows/windows.h"

namespace peal {

/// Thread-safe where its parts are.
class Files {
 public:
  /// What is given outlives this; `gpu` is null where kernels run on the CPU.
  Files(OwnMemory memory, ContextTable& contexts, std::shared_ptr<Gpu> gpu,
        storage::EngineOptions options)
      : memory_(memory), contexts_(contexts), gpu_(std::move(gpu)), options_(std::move(options)) {}

  /// Made by the first call: programs without files neither look for libcufile nor pin buffers.
  storage::Engine& engine();

  /// Throws kInvalidArgument, naming `call`, for what is not this PE's (OwnMemory).
  storage::MemoryRange memory_for(const char* call, const void* symmetric, size_t bytes) const;

  /// A window that begins at `address` ends; no transfer of it is under way.
  void forget_memory(const void* address);

  /// Makes the call in the order of a stream. What fails then is reported in the contexts' table.
  /// Throws kUnsupported while the stream captures.
  void start(Executor& executor, void* stream, const detail::FileCall& call);

 private:
  void move(const detail::FileCall& call, const storage::MemoryRange& memory,
            const storage::ByStream* stream);

  const OwnMemory memory_;
  ContextTable& contexts_;
  const std::shared_ptr<Gpu> gpu_;
  const storage::EngineOptions options_;
  std::once_flag once_;
  std::atomic<bool> made_ = false;
  std::optional<storage::Engine> engine_;
};

}  // namespace peal
