// SPDX-License-Identifier: Apache-2.0
//
// The windows of a PE: memory that kernels transfer from and to. A window is registered with the
// NICs where there are some, mapped from and to the peers that are reached directly, and then shown
// to kernels.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "host/contexts/device_tables.h"
#include "host/job/live_group.h"
#include "host/memory/backing_cuda.h"
#include "host/routes.h"
#include "host/transport/p2p.h"
#include "host/transport/rails.h"

namespace peal {

/// The parts of a runtime that windows are made with; null where there is no such transport.
struct WindowTransports {
  const Routes& routes;
  const Rails* rails;
  P2p* p2p;
  std::shared_ptr<Gpu> gpu;  // null: kernels run on the CPU
};

class Windows {
 public:
  Windows(LiveGroup& bootstrap, DeviceTables& tables, const WindowTransports& transports)
      : bootstrap_(bootstrap), tables_(tables), transports_(transports) {}

  /// Collective. Adds memory of every PE that is mapped already, if some transport wants it mapped.
  void add_mapped(std::byte* address, size_t bytes, PeerMemory memory);

  /// Collective. Adds [address, address + bytes) of every PE. Throws kInvalidArgument where the PEs
  /// differ, kUnsupported when a PE that is reached directly cannot share its part.
  void add_everywhere(std::byte* address, size_t bytes);

  /// Adds memory that only this PE uses. Kernels on a GPU get access to it if they had none.
  void add_local(std::byte* address, size_t bytes);

  /// Memory that a window is of.
  struct Range {
    std::byte* begin;
    size_t bytes;
    bool symmetric;                  // of every PE
    std::vector<std::byte*> direct;  // by PE: where its part begins here, or null; or none at all
  };
  /// The one that holds [address, address + bytes), or null.
  const Range* find(const void* address, size_t bytes) const;

  /// How the NIC got to know the first window, the heap.
  std::string describe_registration() const {
    return regions_.empty() ? "" : regions_.front().registration().describe();
  }

  /// Ends the mappings of the peers' memory. No kernel may run any more.
  void unmap() { mapped_.clear(); }

 private:
  uint64_t first_offset(const std::byte* address) const;
  void agree(const std::byte* address, size_t bytes);
  void keep_wanted(PeerMemory& memory, size_t bytes) const;
  struct Known;
  Known registered(std::byte* address, size_t bytes, bool words) const;
  bool must_dump(bool far) const;
  Window window_of(std::byte* address, size_t bytes, const Known& known) const;

  LiveGroup& bootstrap_;
  DeviceTables& tables_;
  WindowTransports transports_;
  std::vector<nic::MemoryRegion> regions_;
  std::vector<PeerMemory> mapped_;
  std::vector<PinnedRange> pinned_;
  std::deque<Range> ranges_;  // which find() has told of stay where they are
};

}  // namespace peal
