// SPDX-License-Identifier: Apache-2.0
//
// One PE and one file: ranges of a file into memory, memory into a file, and which part of a file
// that all PEs share is this one's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "host/storage/engine.h"

namespace peal::storage {

/// [offset, offset + bytes) of a file.
struct Shard {
  uint64_t offset;
  uint64_t bytes;
};

/// The part of PE `pe` of `n_pes` when `bytes` are divided without cutting units of `unit` bytes:
/// contiguous, in the order of the PEs, the first ones a unit longer where there is a remainder.
/// Throws kInvalidArgument where `bytes` is no multiple of `unit`.
Shard shard_of(uint64_t bytes, size_t unit, int pe, int n_pes);

/// Fills `to` with the file's bytes from `offset` on. Throws as Engine::read does, and for a path
/// that cannot be opened. `stream`: where a stream copies, here and in save().
void load(Engine& engine, const std::string& path, uint64_t offset, const MemoryRange& to,
          const ByStream* stream = nullptr);

/// Loads this PE's part of the file and answers which that is; `to` may be longer, and its rest is
/// as before. Throws kInvalidArgument where `to` is too short.
Shard load_shard(Engine& engine, const std::string& path, size_t unit, int pe, int n_pes,
                 const MemoryRange& to);

/// Makes `path` a file of exactly these bytes, on the disk on return. On failure what was at `path`
/// before is as it was (host/storage/replacement.h).
void save(Engine& engine, const std::string& path, const MemoryRange& from,
          const ByStream* stream = nullptr);

}  // namespace peal::storage
