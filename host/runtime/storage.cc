// SPDX-License-Identifier: Apache-2.0
//
// The Runtime's calls that move files: they find the memory and leave the rest to host/storage.
#include <fmt/format.h>

#include "host/base/error.h"
#include "host/job/together.h"
#include "host/nvtx/range.h"
#include "host/runtime.h"
#include "host/runtime/parts.h"
#include "host/storage/checkpoint.h"
#include "host/storage/whole_files.h"

namespace peal {
namespace {

// All PEs have masked the same PEs, so that all throw, and nobody is left in an exchange.
void refuse_masked(const LiveGroup& group, const char* call) {
  if (group.masked_pes().empty()) return;
  fail(ErrorCode::kUnsupported,
       "{}: {} PEs are masked, and a checkpoint has a part of every PE; save() a file for each PE",
       call, group.masked_pes().size());
}

}  // namespace

void Runtime::load(const std::string& path, uint64_t offset, void* symmetric, size_t bytes) {
  const nvtx::Range range("peal: load");
  const storage::MemoryRange to = parts().services->files.memory_for("load", symmetric, bytes);
  storage::load(parts().services->files.engine(), path, offset, to);
}

void Runtime::save(const std::string& path, const void* symmetric, size_t bytes) {
  const nvtx::Range range("peal: save");
  const storage::MemoryRange from = parts().services->files.memory_for("save", symmetric, bytes);
  storage::save(parts().services->files.engine(), path, from);
}

Runtime::FilePart Runtime::load_shard(const std::string& path, void* symmetric, size_t room,
                                      size_t unit) {
  const nvtx::Range range("peal: load_shard");
  const storage::MemoryRange to = parts().services->files.memory_for("load_shard", symmetric, room);
  const storage::Shard mine =
      storage::load_shard(parts().services->files.engine(), path, unit, my_pe(), n_pes(), to);
  return {mine.offset, mine.bytes};
}

void Runtime::save_checkpoint(const std::string& path, const void* symmetric, size_t bytes) {
  refuse_masked(parts().job.group, "save_checkpoint");
  const Parts::CollectiveCall call(parts(), "peal: save_checkpoint");
  const storage::MemoryRange from = together(parts().job.group, [&] {
    parts().services->files.engine();
    return parts().services->files.memory_for("save_checkpoint", symmetric, bytes);
  });
  storage::save_checkpoint(parts().services->files.engine(), parts().job.group, path, from);
}

void Runtime::load_checkpoint(const std::string& path, void* symmetric, size_t bytes) {
  refuse_masked(parts().job.group, "load_checkpoint");
  const Parts::CollectiveCall call(parts(), "peal: load_checkpoint");
  const storage::MemoryRange to = together(parts().job.group, [&] {
    parts().services->files.engine();
    return parts().services->files.memory_for("load_checkpoint", symmetric, bytes);
  });
  storage::load_checkpoint(parts().services->files.engine(), parts().job.group, path, to);
}

std::string Runtime::describe_storage() const {
  return parts().services->files.engine().describe();
}

}  // namespace peal
