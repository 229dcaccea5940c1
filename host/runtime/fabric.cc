// SPDX-License-Identifier: Apache-2.0
#include "host/runtime/fabric.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "host/job/together.h"
#include "host/memory/backing_cuda.h"
#include "host/memory/pieces.h"
#include "host/runtime/kept_heap.h"
#include "host/teams/teams.h"
#include "host/transport/warn_once.h"
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

// Says so where a program's kernels could be looked at, and are not.
void warn_unchecked(const JobMembership& job) {
  if (!simt::accesses_are_told || simt::access_observer != nullptr || job.group.rank() != 0) return;
  job.log.warn(
      "check",
      "the program was compiled with peal-cc --check, and PEAL_CHECK is not on: nothing is "
      "looked at; set PEAL_CHECK=on");
}

PublishedWindows::Make tables_on(const std::shared_ptr<Gpu>& gpu, const char* name) {
  return [gpu, name](size_t bytes) { return kernel_memory(gpu, bytes, name); };
}

RouteOptions options_of(const JobMembership& job, const Gpu* gpu) {
  return {.asked = job.config.transport,
          .target = job.target,
          .orders_writes = gpu == nullptr || gpu->orders_writes()};
}

RouteOptions with_reason(RouteOptions options, const Rails* rails) {
  if (rails != nullptr) options.why_proxy = rails->why_proxy();
  return options;
}

std::unique_ptr<P2p> open_p2p(JobMembership& job, const std::shared_ptr<Gpu>& gpu) {
  std::string no_nvml;
  return std::make_unique<P2p>(
      job.group, job.group.places(), gpu, gpu ? Nvml::open(&no_nvml) : nullptr,
      std::chrono::duration_cast<std::chrono::milliseconds>(job.config.bootstrap_timeout));
}

std::unique_ptr<const Rails> open_rails(JobMembership& job, const std::shared_ptr<Gpu>& gpu) {
  const bool one_host = std::ranges::all_of(
      job.group.places(), [&](const Place& p) { return same_host(p, job.group.places()[0]); });
  return std::make_unique<const Rails>(job.config, gpu, job.group, job.log, one_host);
}

// Collective. Warns where a job that chose its transports itself (PEAL_TRANSPORT=auto) goes by a
// NIC that settings of containers make it use, or where GPUs go by the software NIC.
void warn_of_downgrade(JobMembership& job, const PeerMemory& mapped, const Rails* rails,
                       const Gpu* gpu) {
  std::vector<std::string> lines;
  if (job.config.transport == TransportKind::kAuto) {
    const auto first = std::ranges::find(mapped.avoidable, true);
    if (first != mapped.avoidable.end()) {
      const auto pe = static_cast<size_t>(first - mapped.avoidable.begin());
      lines.push_back(fmt::format(
          "PE {}{} is reached by a NIC and need not be: {}", pe,
          std::ranges::count(mapped.avoidable, true) > 1 ? " (and others)" : "", mapped.how[pe]));
    }
    if (gpu != nullptr && rails != nullptr && rails->model().starts_with("softnic")) {
      lines.push_back(
          "GPUs exchange data by the software NIC, which is for tests: no NIC of mlx5 was found "
          "(tools/doctor says why); PEAL_TRANSPORT=ibgda starts so without this warning");
    }
  }
  warn_once(job.group, job.log, fmt::format("{}", fmt::join(lines, "\n")), {});
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
  const std::vector<uint64_t> kept = kept_words(job);
  Memory memory = together(job.group, [&] {
    std::shared_ptr<Gpu> gpu;
    if (job.target == Target::kGpu) {
      const auto me = static_cast<size_t>(job.group.rank());
      gpu = Gpu::open(job.config.device, rank_on_host(job.group.places(), me), job.config.gdrcopy);
      gpu->make_current();
    }
    Backing words = shared_memory(gpu, ContextTable::bytes(job.group.size()), "peal-words");
    const size_t bytes = job.config.heap_size + team_memory(job);
    const auto make = [&](size_t size, HeapKind kind) {
      return heap_memory(gpu, job.group, size, kind);
    };
    HeapMemory heap = kept.empty() ? HeapMemory::fresh(make(bytes, HeapKind::kDevice))
                                   : kept_memory(job, kept, make);
    return Memory{std::move(gpu), std::move(words), std::move(heap), std::nullopt};
  });
  if (job.config.check) {
    memory.extents = together(job.group, [&] {
      const size_t bytes = Extents::bytes(memory.heap.memory.front()->bytes());
      return Extents(kernel_memory(memory.gpu, bytes, "peal-extents"));
    });
  }
  return memory;
}

namespace {

// A NIC may number the queues of a rejoined job as those of before. Their packets begin elsewhere,
// so that what another host sent before is out of sequence.
uint32_t first_generation(const JobMembership& job) {
  return static_cast<uint32_t>(job.epoch << 16);
}

}  // namespace

MemoryFabric::MemoryFabric(JobMembership& job) : MemoryFabric(job, open(job)) {}

MemoryFabric::MemoryFabric(JobMembership& job, Memory memory)
    : gpu(std::move(memory.gpu)),
      slots(std::move(memory.words), job.group.size(), first_generation(job)),
      heap(std::move(memory.heap), job.group, std::move(memory.extents)),
      ways(job, gpu, heap),
      tables(together(job.group,
                      [&] { return std::make_unique<KernelTables>(job, gpu, ways.rail_count()); })),
      checks(job.config.check ? std::make_unique<CheckMode>(job, heap, tables->contexts, slots,
                                                            ways.mapped_heaps.direct)
                              : nullptr),
      windows(job.group, tables->windows,
              {.routes = ways.routes,
               .rails = ways.rails.get(),
               .p2p = ways.p2p.get(),
               .gpu = gpu,
               .get_flush = job.config.get_flush,
               .info = job.config.info ? &job.log : nullptr},
              {heap.base(), heap.bytes(), std::move(ways.mapped_heaps)}) {
  if (!checks) warn_unchecked(job);
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

Ways::Ways(JobMembership& job, const std::shared_ptr<Gpu>& gpu, const SymmetricHeap& heap)
    : Ways(job, gpu, heap, options_of(job, gpu.get())) {}

Ways::Ways(JobMembership& job, const std::shared_ptr<Gpu>& gpu, const SymmetricHeap& heap,
           const RouteOptions& options)
    : p2p(options.try_p2p() ? open_p2p(job, gpu) : nullptr),
      mapped_heaps(p2p ? p2p->map(heap.base(), heap.bytes(), heap.backing().fd()) : PeerMemory{}),
      reachable(job.group, options, mapped_heaps.direct, mapped_heaps.how),
      rails(reachable.needs_nic() ? open_rails(job, gpu) : nullptr),
      routes(reachable, with_reason(options, rails.get())) {
  warn_of_downgrade(job, mapped_heaps, rails.get(), gpu.get());
}

}  // namespace peal
