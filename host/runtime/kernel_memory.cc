// SPDX-License-Identifier: Apache-2.0
#include "host/runtime/kernel_memory.h"

#include <algorithm>

#include "host/memory/backing_cuda.h"
#include "host/memory/pieces.h"

namespace peal {

Backing kernel_memory(const std::shared_ptr<Gpu>& gpu, size_t bytes, const std::string& name) {
  return gpu ? make_cuda_backing(gpu, bytes, name) : make_host_backing(bytes, name);
}

Backing shared_memory(const std::shared_ptr<Gpu>& gpu, size_t bytes, const std::string& name) {
  return gpu ? make_pinned_backing(gpu, bytes, name) : make_host_backing(bytes, name);
}

Backing heap_memory(const std::shared_ptr<Gpu>& gpu, const LiveGroup& group, size_t bytes,
                    HeapKind kind) {
  if (gpu && kind == HeapKind::kHost) return make_registered_backing(gpu, bytes, "peal-host-heap");
  const Place& here = group.places()[static_cast<size_t>(group.rank())];
  const bool handed = std::ranges::all_of(group.places(), [&](const Place& there) {
    return !same_host(here, there) || same_sockets(here, there);
  });
  if (gpu && handed && has_pieces(*gpu)) return make_piece_backing(gpu, bytes, "peal-heap");
  return kernel_memory(gpu, bytes, "peal-heap");
}

}  // namespace peal
