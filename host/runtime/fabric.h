// SPDX-License-Identifier: Apache-2.0
//
// The memory of a job as the kernels of one PE find it: the heap and the windows, the ways to the
// peers' parts of them, and the tables that kernels look them up in. The members are made in their
// order by all PEs together; where that fails on one PE it throws on all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "host/contexts/context_owner.h"
#include "host/contexts/device_tables.h"
#include "host/contexts/recorder.h"
#include "host/contexts/usage_text.h"
#include "host/memory/gpu.h"
#include "host/memory/symmetric_heap.h"
#include "host/runtime/check_mode.h"
#include "host/runtime/job.h"
#include "host/transport/p2p.h"
#include "host/transport/rails.h"
#include "host/transport/routes.h"
#include "host/windows/windows.h"

namespace peal {

/// Memory that kernels use, of the GPU or, where that is null, of the host; and memory that they
/// share with the host while they run.
Backing kernel_memory(const std::shared_ptr<Gpu>& gpu, size_t bytes, const std::string& name);
Backing shared_memory(const std::shared_ptr<Gpu>& gpu, size_t bytes, const std::string& name);

/// What kernels look up beside the heap.
struct KernelTables {
  KernelTables(const JobMembership& job, const std::shared_ptr<Gpu>& gpu, uint32_t rails);

  PublishedWindows windows;
  DeviceTables contexts;
  Recorder recorder;

  size_t bytes() const { return windows.bytes() + contexts.bytes() + recorder.bytes(); }
};

/// How a PE reaches the others: by loads and stores of memory that is mapped, by NICs, and why so.
struct Ways {
  /// Collective. Maps the peers' heaps where that is asked for, and opens the NICs where some PE
  /// has a peer that is not mapped.
  Ways(JobMembership& job, const std::shared_ptr<Gpu>& gpu, const SymmetricHeap& heap);

  const std::unique_ptr<P2p> p2p;  // null: nothing is mapped (RouteOptions::try_p2p)
  PeerMemory mapped_heaps;         // until Windows takes them
  const Reachable reachable;
  const std::unique_ptr<const Rails> rails;  // null: every peer is reached directly
  const Routes routes;

  uint32_t rail_count() const { return rails ? rails->count() : 1; }

 private:
  Ways(JobMembership& job, const std::shared_ptr<Gpu>& gpu, const SymmetricHeap& heap,
       const RouteOptions& options);
};

struct MemoryFabric {
  /// Collective. `job` outlives this.
  explicit MemoryFabric(JobMembership& job);
  MemoryFabric(const MemoryFabric&) = delete;
  MemoryFabric& operator=(const MemoryFabric&) = delete;

  const std::shared_ptr<Gpu> gpu;  // null: kernels run on the CPU
  ContextTable slots;              // of contexts
  SymmetricHeap heap;
  Ways ways;
  const std::unique_ptr<KernelTables> tables;
  const std::unique_ptr<CheckMode> checks;  // null: PEAL_CHECK is off
  Windows windows;

  OwnMemory own_memory() const { return {heap, windows}; }
  /// What an address is, for people.
  PlaceOf place_of() const;

 private:
  struct Memory {
    std::shared_ptr<Gpu> gpu;
    Backing words;
    HeapMemory heap;
    std::optional<Extents> extents;  // in checked mode
  };
  static Memory open(JobMembership& job);
  MemoryFabric(JobMembership& job, Memory memory);
  void let_heap_grow(const JobMembership& job);
};

/// Bytes of the heap that teams lie in.
size_t team_memory(const JobMembership& job);

}  // namespace peal
