// SPDX-License-Identifier: Apache-2.0
#include "host/storage/whole_files.h"

#include <algorithm>

#include "host/base/error.h"
#include "host/storage/replacement.h"

namespace peal::storage {
namespace {

/// The first `bytes` of it.
MemoryRange first(MemoryRange memory, uint64_t bytes) {
  memory.bytes = static_cast<size_t>(bytes);
  return memory;
}

}  // namespace

Shard shard_of(uint64_t bytes, size_t unit, int pe, int n_pes) {
  if (unit == 0 || bytes % unit != 0) {
    fail(ErrorCode::kInvalidArgument, "shard: {} bytes are no whole number of units of {} bytes",
         bytes, unit);
  }
  if (n_pes < 1 || pe < 0 || pe >= n_pes) {
    fail(ErrorCode::kInvalidArgument, "shard: there is no PE {} of {}", pe, n_pes);
  }
  const uint64_t units = bytes / unit;
  const auto n = static_cast<uint64_t>(n_pes);
  const auto me = static_cast<uint64_t>(pe);
  const uint64_t each = units / n;
  const uint64_t longer = units % n;
  const uint64_t begin = me * each + std::min(me, longer);
  return {begin * unit, (each + (me < longer ? 1 : 0)) * unit};
}

void load(Engine& engine, const std::string& path, uint64_t offset, const MemoryRange& to,
          const ByStream* stream) {
  File file(engine.calls(), path, File::Use::kRead, engine.options().direct);
  engine.read({.file = file, .offset = offset, .memory = to, .stream = stream});
}

Shard load_shard(Engine& engine, const std::string& path, size_t unit, int pe, int n_pes,
                 const MemoryRange& to) {
  File file(engine.calls(), path, File::Use::kRead, engine.options().direct);
  const Shard mine = shard_of(file.bytes(), unit, pe, n_pes);
  if (mine.bytes > to.bytes) {
    fail(ErrorCode::kInvalidArgument,
         "load_shard of {}: the part of PE {} of {} has {} bytes, the memory {}; give more memory",
         path, pe, n_pes, mine.bytes, to.bytes);
  }
  engine.read({file, mine.offset, first(to, mine.bytes)});
  return mine;
}

void save(Engine& engine, const std::string& path, const MemoryRange& from,
          const ByStream* stream) {
  Replacement replacement(engine.calls(), path, engine.options().direct);
  engine.write({.file = replacement.file(), .offset = 0, .memory = from, .stream = stream});
  replacement.commit();
}

}  // namespace peal::storage
