// SPDX-License-Identifier: Apache-2.0
#include "peal/c_storage.h"

#include <string>

#include "host/base/error.h"
#include "peal/c_guard.h"

namespace {

using peal::Runtime;
using peal::c::done;

/// The path, once it is known to be one; `call` is its caller's name.
std::string checked(const char* call, const char* path) {
  if (path == nullptr) peal::fail(peal::ErrorCode::kInvalidArgument, "{}: the path is NULL", call);
  return path;
}

// The path that a collective call passes on. An empty path fails on all PEs as any wrong path does;
// NULL on one PE would leave the others waiting.
std::string for_all(const char* path) { return path == nullptr ? "" : path; }

}  // namespace

int peal_load(const char* path, uint64_t offset, void* symmetric, size_t bytes) {
  return done("peal_load",
              [&](Runtime& pe) { pe.load(checked("peal_load", path), offset, symmetric, bytes); });
}

int peal_save(const char* path, const void* symmetric, size_t bytes) {
  return done("peal_save",
              [&](Runtime& pe) { pe.save(checked("peal_save", path), symmetric, bytes); });
}

int peal_load_on_stream(const char* path, uint64_t offset, void* symmetric, size_t bytes,
                        peal_stream_t stream) {
  return done("peal_load_on_stream", [&](Runtime& pe) {
    pe.on(stream).load(checked("peal_load_on_stream", path), offset, symmetric, bytes);
  });
}

int peal_save_on_stream(const char* path, const void* symmetric, size_t bytes,
                        peal_stream_t stream) {
  return done("peal_save_on_stream", [&](Runtime& pe) {
    pe.on(stream).save(checked("peal_save_on_stream", path), symmetric, bytes);
  });
}

int peal_load_shard(const char* path, void* symmetric, size_t room, size_t unit,
                    peal_file_part_t* part) {
  return done("peal_load_shard", [&](Runtime& pe) {
    const auto mine = pe.load_shard(checked("peal_load_shard", path), symmetric, room, unit);
    if (part != nullptr) *part = {mine.offset, mine.bytes};
  });
}

int peal_save_checkpoint(const char* path, const void* symmetric, size_t bytes) {
  return done("peal_save_checkpoint",
              [&](Runtime& pe) { pe.save_checkpoint(for_all(path), symmetric, bytes); });
}

int peal_load_checkpoint(const char* path, void* symmetric, size_t bytes) {
  return done("peal_load_checkpoint",
              [&](Runtime& pe) { pe.load_checkpoint(for_all(path), symmetric, bytes); });
}

const char* peal_describe_storage() {
  thread_local std::string told;
  return peal::c::guarded(static_cast<const char*>(nullptr), [] {
    told = peal::c::initialised("peal_describe_storage").describe_storage();
    return told.c_str();
  });
}
