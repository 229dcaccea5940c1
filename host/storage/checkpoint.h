// SPDX-License-Identifier: Apache-2.0
//
// Memory of all PEs in one file, saved and loaded together. A failure on one PE is a failure of
// all: then the file of before is as it was.
//
//   PE 0   make PATH.partial | write part, sums, fsync | write header, fsync, rename
//   PE 1   open what PE 0    | write part, sums, fsync |
//          made              |                         |
// What a killed saver has left in PATH.partial is compared with what is to be saved, from the
// beginning of each part: what is there already is not written again.
#pragma once

#include <string>

#include "host/bootstrap.h"
#include "host/storage/engine.h"

namespace peal::storage {

/// Collective; all PEs name the same path and as many bytes. Throws on all PEs: kInvalidArgument
/// where they differ or `path` cannot be written, kConfiguration where they do not see one file
/// system, kSystem where a disk fails or is full. Memory must not change meanwhile.
void save_checkpoint(Engine& engine, Bootstrap& group, const std::string& path,
                     const MemoryRange& from);

/// Collective; fills `to` with what this PE saved. Throws on all PEs: kInvalidArgument for what is
/// no checkpoint, one of another number of PEs or bytes, one that was cut short, and where PEs see
/// different ones; kSystem for a damaged one, naming PE and bytes. Memory is undefined then.
void load_checkpoint(Engine& engine, Bootstrap& group, const std::string& path,
                     const MemoryRange& to);

}  // namespace peal::storage
