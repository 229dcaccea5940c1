// SPDX-License-Identifier: Apache-2.0
#include "peal/c_storage.h"

#include <string>

#include "host/base/error.h"
#include "peal/c_guard.h"

namespace {

using peal::c::guarded;
using peal::c::initialised;

/// The path, once it is known to be one; `call` is its caller's name.
std::string checked(const char* call, const char* path) {
  if (path == nullptr) peal::fail(peal::ErrorCode::kInvalidArgument, "{}: the path is NULL", call);
  return path;
}

}  // namespace

int peal_load(const char* path, uint64_t offset, void* symmetric, size_t bytes) {
  return guarded(-1, [&] {
    initialised("peal_load").load(checked("peal_load", path), offset, symmetric, bytes);
    return 0;
  });
}

int peal_save(const char* path, const void* symmetric, size_t bytes) {
  return guarded(-1, [&] {
    initialised("peal_save").save(checked("peal_save", path), symmetric, bytes);
    return 0;
  });
}

int peal_load_on_stream(const char* path, uint64_t offset, void* symmetric, size_t bytes,
                        peal_stream_t stream) {
  return guarded(-1, [&] {
    initialised("peal_load_on_stream")
        .on(stream)
        .load(checked("peal_load_on_stream", path), offset, symmetric, bytes);
    return 0;
  });
}

int peal_save_on_stream(const char* path, const void* symmetric, size_t bytes,
                        peal_stream_t stream) {
  return guarded(-1, [&] {
    initialised("peal_save_on_stream")
        .on(stream)
        .save(checked("peal_save_on_stream", path), symmetric, bytes);
    return 0;
  });
}

int peal_load_shard(const char* path, void* symmetric, size_t room, size_t unit,
                    peal_file_part_t* part) {
  return guarded(-1, [&] {
    const peal::Runtime::FilePart mine =
        initialised("peal_load_shard")
            .load_shard(checked("peal_load_shard", path), symmetric, room, unit);
    if (part != nullptr) *part = {mine.offset, mine.bytes};
    return 0;
  });
}

// An empty path travels as any other: it fails on all PEs, where NULL on one would leave the others
// waiting.
int peal_save_checkpoint(const char* path, const void* symmetric, size_t bytes) {
  return guarded(-1, [&] {
    initialised("peal_save_checkpoint")
        .save_checkpoint(path == nullptr ? "" : path, symmetric, bytes);
    return 0;
  });
}

int peal_load_checkpoint(const char* path, void* symmetric, size_t bytes) {
  return guarded(-1, [&] {
    initialised("peal_load_checkpoint")
        .load_checkpoint(path == nullptr ? "" : path, symmetric, bytes);
    return 0;
  });
}

const char* peal_describe_storage() {
  thread_local std::string told;
  return guarded(static_cast<const char*>(nullptr), [] {
    told = initialised("peal_describe_storage").describe_storage();
    return told.c_str();
  });
}
