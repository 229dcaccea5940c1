// SPDX-License-Identifier: Apache-2.0
#include "host/runtime/fabric.h"

#include <algorithm>
#include <utility>

#include "host/job/together.h"
#include "host/memory/backing_cuda.h"
#include "host/memory/pieces.h"
#include "host/teams/teams.h"
#include "simt/lanes/plain_access.h"

namespace peal {
namespace {

// Memory of the heap, which peers map: as a piece, where all PEs of the host can be handed its
// descriptor.
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

DeviceTables::Extent extent_of(const JobMembership& job) {
  return {job.group.size(), job.config.check, job.config.own_memory};
}

// Collective where checked mode is on; else null.
std::unique_ptr<CheckMode> check_mode_for(const JobMembership& job,
                                          const CheckMode::Dependencies& parts) {
  if (job.config.check) return std::make_unique<CheckMode>(parts);
  if (simt::accesses_are_told && simt::access_observer == nullptr && job.group.rank() == 0) {
    job.log.warn("check",
                 "the program was compiled with peal-cc --check, and PEAL_CHECK is not on: nothing "
                 "is looked at; set PEAL_CHECK=on");
  }
  return nullptr;
}

PublishedWindows::Make tables_on(const std::shared_ptr<Gpu>& gpu, const char* name) {
  return [gpu, name](size_t bytes) { return kernel_memory(gpu, bytes, name); };
}

}  // namespace

Backing kernel_memory(const std::shared_ptr<Gpu>& gpu, size_t bytes, const std::string& name) {
  return gpu ? make_cuda_backing(gpu, bytes, name) : make_host_backing(bytes, name);
}

Backing shared_memory(const std::shared_ptr<Gpu>& gpu, size_t bytes, const std::string& name) {
  return gpu ? make_pinned_backing(gpu, bytes, name) : make_host_backing(bytes, name);
}

size_t team_memory(const JobMembership& job) {
  return Teams::arena_bytes(job.config.team_memory, job.group.size(), job.target == Target::kGpu);
}

KernelTables::KernelTables(const JobMembership& job, const std::shared_ptr<Gpu>& gpu,
                           uint32_t rails)
    : windows(tables_on(gpu, "peal-tables"), job.group.size(), rails),
      contexts(kernel_memory(gpu, DeviceTables::bytes(extent_of(job)), "peal-tables"),
               extent_of(job), windows),
      recorder(static_cast<uint32_t>(job.config.record), tables_on(gpu, "peal-records")) {}

MemoryFabric::Memory MemoryFabric::open(JobMembership& job) {
  Memory memory = together(job.group, [&] {
    std::shared_ptr<Gpu> gpu;
    if (job.target == Target::kGpu) {
      const auto me = static_cast<size_t>(job.group.rank());
      gpu = Gpu::open(job.config.device, rank_on_host(job.group.places(), me), job.config.gdrcopy);
      gpu->make_current();
    }
    Backing words = shared_memory(gpu, ContextTable::bytes(job.group.size()), "peal-words");
    Backing heap =
        heap_memory(gpu, job.group, job.config.heap_size + team_memory(job), HeapKind::kDevice);
    return Memory{std::move(gpu), std::move(words), std::move(heap), std::nullopt};
  });
  if (job.config.check) {
    memory.extents = together(job.group, [&] {
      const size_t bytes = Extents::bytes(memory.heap.bytes());
      return Extents(kernel_memory(memory.gpu, bytes, "peal-extents"));
    });
  }
  return memory;
}

MemoryFabric::MemoryFabric(JobMembership& job) : MemoryFabric(job, open(job)) {}

MemoryFabric::MemoryFabric(JobMembership& job, Memory memory)
    : gpu(std::move(memory.gpu)),
      slots(std::move(memory.words), job.group.size()),
      heap(std::move(memory.heap), job.group, std::move(memory.extents)),
      ways(job, gpu, heap),
      tables(together(job.group,
                      [&] { return std::make_unique<KernelTables>(job, gpu, ways.rail_count()); })),
      checks(check_mode_for(job, {.group = job.group,
                                  .heap = heap,
                                  .tables = tables->contexts,
                                  .contexts = slots,
                                  .target = job.target,
                                  .log = job.log,
                                  .mapped = ways.mapped_heaps.direct})),
      windows(job.group, tables->windows,
              {.routes = ways.routes,
               .rails = ways.rails.get(),
               .p2p = ways.p2p.get(),
               .gpu = gpu,
               .get_flush = job.config.get_flush,
               .info = job.config.info ? &job.log : nullptr},
              {heap.base(), heap.bytes(), std::move(ways.mapped_heaps)}) {
  let_heap_grow(job);
}

// Checked mode knows which bytes of the first segment are allocated (Extents), and of no other.
void MemoryFabric::let_heap_grow(const JobMembership& job) {
  if (job.config.check) {
    heap.stay("it does not grow in checked mode (PEAL_CHECK)");
    return;
  }
  heap.grow_by(
      {.step = job.config.heap_size,
       .limit = job.config.heap_limit + team_memory(job),
       .make = [this, &job](size_t bytes,
                            HeapKind kind) { return heap_memory(gpu, job.group, bytes, kind); },
       .publish =
           [this, &job](const Backing& memory) {
             const WindowHandle window = windows.add_everywhere(memory);
             job.log.info("heap",
                          "grows by {}: kernels look it up as they do windows; "
                          "PEAL_HEAP_SIZE avoids that",
                          format_size(memory.bytes()));
             return window.number;
           },
       .hide = [this](uint32_t window) { windows.remove({window}); }});
}

PlaceOf MemoryFabric::place_of() const {
  return [this, heaps = windows.mapped_heaps()](const void* address) {
    const std::string seen = heaps.describe(address);
    return seen.empty() ? heap.place_of(address) : seen;
  };
}

}  // namespace peal
