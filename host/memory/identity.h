// SPDX-License-Identifier: Apache-2.0
//
// Whether memory is still what it was when its address was told: an allocator frees it, and other
// memory may have its addresses later.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "host/memory/gpu.h"

namespace peal {

/// The driver's numbers of the allocations and mappings that a range lies in, in their order
/// (CU_POINTER_ATTRIBUTE_BUFFER_ID, which no two of a process ever share). Memory that was freed,
/// or mapped anew, has others. Seen on an H100, driver 580: so for memory of cudaMalloc,
/// cudaMallocAsync, cudaMallocHost, and for each mapping of cuMemCreate's.
using MemoryIdentity = std::vector<uint64_t>;

/// Empty where some of the range is memory that CUDA does not know. Under a microsecond for each
/// allocation.
MemoryIdentity identify(const Gpu& gpu, const std::byte* address, size_t bytes);

}  // namespace peal
