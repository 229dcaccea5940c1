/* SPDX-License-Identifier: Apache-2.0
 *
 * Files into and out of symmetric memory for C programs, as Runtime has it for C++ (host/runtime.h,
 * docs/storage.md). Memory is any part of the heap or of a window; peers and kernels leave it alone
 * meanwhile.
 *
 *   peal_load("/data/weights.bin", 0, weights, bytes);           this PE alone
 *   peal_save_checkpoint("/shared/step-100", weights, bytes);    all PEs, one file
 *
 * All that answer a number answer 0, or -1 and leave the reason for peal_error().
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "peal/c_api.h"
#include "peal/c_calls.h"

#ifdef __cplusplus
extern "C" {
#endif

/** [offset, offset + bytes) of a file. */
typedef struct {
  uint64_t offset;
  uint64_t bytes;
} peal_file_part_t;

/** Fills memory with the file's bytes from `offset` on. -1 where the file ends before, with memory
 * as it was; where the disk fails memory is undefined. */
int peal_load(const char* path, uint64_t offset, void* symmetric, size_t bytes);

/** Makes `path` a file of exactly these bytes, on the disk on return. Where it fails, what was at
 * `path` is as it was. */
int peal_save(const char* path, const void* symmetric, size_t bytes);

/** The same in the order of a stream: the file is opened when what is in the stream before is done,
 * and what follows finds all of it. What fails later peal_check() tells. -1 while the stream
 * captures a graph. */
int peal_load_on_stream(const char* path, uint64_t offset, void* symmetric, size_t bytes,
                        peal_stream_t stream);
int peal_save_on_stream(const char* path, const void* symmetric, size_t bytes,
                        peal_stream_t stream);

/** Loads this PE's part of a file that is divided among all PEs without cutting units of `unit`
 * bytes, and answers in *part which that is; NULL: not wanted. -1 where `room` bytes are too few.
 */
int peal_load_shard(const char* path, void* symmetric, size_t room, size_t unit,
                    peal_file_part_t* part);

/** Collective; the same path and as many bytes on all PEs. What fails on one PE fails on all, and
 * what was at `path` is as it was. */
int peal_save_checkpoint(const char* path, const void* symmetric, size_t bytes);
/** Collective; on as many PEs as saved it, of as many bytes. */
int peal_load_checkpoint(const char* path, void* symmetric, size_t bytes);

/** For people: which way the last of these calls took, and why. Valid until the thread's next call
 * of this function; NULL before peal_init. */
const char* peal_describe_storage(void);

#ifdef __cplusplus
}
#endif
