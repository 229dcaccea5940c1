// SPDX-License-Identifier: Apache-2.0
//
// Heaps that outlive the job before (RejoinOptions::keep_heap): PEs that have lived go on with
// their memory, and new ones take memory in which the same blocks are dealt out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "host/memory/heap_memory.h"
#include "host/runtime/job.h"

namespace peal {

/// Collective. How the heaps are dealt out, as HeapMemory::words(); none where no heap is kept.
/// Throws kConfiguration, on all PEs the same, where they differ.
std::vector<uint64_t> kept_words(JobMembership& job);

/// Takes this PE's memory: that of before or, as `words` say, what `make` makes.
HeapMemory kept_memory(JobMembership& job, const std::vector<uint64_t>& words,
                       const std::function<Backing(size_t bytes, HeapKind kind)>& make);

}  // namespace peal
