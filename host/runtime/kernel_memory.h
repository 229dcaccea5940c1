// SPDX-License-Identifier: Apache-2.0
//
// Memory of the kernels of a PE, of its GPU or, where that is null, of the host.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "host/job/live_group.h"
#include "host/memory/backing.h"
#include "host/memory/gpu.h"
#include "host/memory/heap_kind.h"

namespace peal {

/// Memory that kernels use.
Backing kernel_memory(const std::shared_ptr<Gpu>& gpu, size_t bytes, const std::string& name);

/// Memory that kernels share with the host while they run.
Backing shared_memory(const std::shared_ptr<Gpu>& gpu, size_t bytes, const std::string& name);

/// Memory of the heap, which peers map: as a piece, where all PEs of the host can be handed its
/// descriptor.
Backing heap_memory(const std::shared_ptr<Gpu>& gpu, const LiveGroup& group, size_t bytes,
                    HeapKind kind);

}  // namespace peal
