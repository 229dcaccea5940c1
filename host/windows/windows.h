// SPDX-License-Identifier: Apache-2.0
//
// The windows of a PE: memory that kernels transfer from and to. A window goes through these
// stages, and ends in the other order:
//
//   WindowRequest      what each PE asks for, and what they agree on     window_request.h
//   PeerMemory         the peers' parts, mapped where there is no NIC    host/transport/p2p.h
//   RegisteredPart     this PE's part, registered with its NICs          window_request.h
//   Draft, published   written down, and then found by kernels           published_windows.h
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "device/window.h"
#include "host/base/log.h"
#include "host/job/live_group.h"
#include "host/memory/backing_cuda.h"
#include "host/memory/registration_cache.h"
#include "host/memory/symmetric_heap.h"
#include "host/options.h"
#include "host/transport/p2p.h"
#include "host/transport/rails.h"
#include "host/transport/routes.h"
#include "host/windows/published_windows.h"
#include "host/windows/window_request.h"

namespace peal {

/// The parts of a runtime that windows are made with; null where there is no such transport.
struct WindowTransports {
  const Routes& routes;
  const Rails* rails;
  P2p* p2p;
  std::shared_ptr<Gpu> gpu;  // null: kernels run on the CPU
  GetFlush get_flush = GetFlush::kAuto;
  const Log* info = nullptr;  // where each window of add_everywhere() is described, if anywhere
};

/// Whether what a NIC has fetched into memory of the kernels has to be flushed behind its
/// completion. `gpu` is theirs, or null; `by_cpu`: a CPU hears of the completion.
bool must_flush(const Gpu* gpu, GetFlush asked, bool by_cpu);

class Windows {
 public:
  /// The heap of this PE, and all PEs' as they are mapped here, if some transport wants that.
  struct Heap {
    std::byte* address;
    size_t bytes;
    PeerMemory memory;
  };
  /// Collective. Adds the heap, window 0.
  Windows(LiveGroup& group, PublishedWindows& published, const WindowTransports& transports,
          Heap heap);

  /// Calls `told` with the beginning of each window that is about to end, of this PE.
  void before_end(std::function<void(const std::byte*)> told) { before_end_ = std::move(told); }

  /// Collective. Adds [address, address + bytes) of every PE. Throws kInvalidArgument where the PEs
  /// differ in what must be alike, kUnsupported when a PE that is reached directly cannot share its
  /// part.
  WindowHandle add_everywhere(std::byte* address, size_t bytes, const WindowOptions& options = {});

  /// Adds memory of the runtime's own, as large on all PEs. Other processes may be able to map that
  /// where they cannot map any memory by its address.
  WindowHandle add_everywhere(const Backing& memory);

  /// Collective. Ends a window of add_everywhere(), of which the PEs give their own handles. Throws
  /// kInvalidArgument, on all PEs, where those are not of one window; then nothing ends.
  void remove(const WindowHandle& window);

  /// Adds memory that only this PE uses. Kernels on a GPU get access to it if they had none. Of the
  /// options `cached` is looked at.
  void add_local(std::byte* address, size_t bytes, const WindowOptions& options = {});

  /// Ends what add_local() was given last with this address. Throws kInvalidArgument if nothing
  /// was.
  void remove_local(const std::byte* address);

  /// Memory that a window is of.
  struct Range {
    std::byte* begin;  // this PE's part
    size_t bytes;
    bool symmetric;                  // every PE has a part
    std::vector<std::byte*> direct;  // by PE: where its part begins here, or null; or none at all
    std::vector<uint64_t> sizes;     // by PE; none: all have `bytes`
  };
  /// What an address stands for; `range` is null where that is nothing.
  struct Location {
    const Range* range;
    uint64_t offset;
  };
  /// The window that holds [address, address + bytes) of this PE, or that the address names
  /// (WindowHandle::at).
  Location find(const void* address, size_t bytes) const;

  /// The handle of the window of add_everywhere() that this PE's part at `address` is of, the
  /// newest of several; one of number 0 if there is none.
  WindowHandle handle_of(const std::byte* address) const;

  /// The heaps of the PEs as they are mapped here, from when the PEs have begun.
  struct MappedHeaps {
    std::byte* base = nullptr;  // this PE's
    size_t bytes = 0;
    int pe = 0;
    std::vector<std::byte*> direct;  // by PE; null: not mapped
    /// "PE 1's 0x7f..., seen from here (ptr()): ..." of an address in one; "" of any other.
    std::string describe(const void* address) const;
  };
  MappedHeaps mapped_heaps() const;

  /// How the NIC got to know the heap.
  std::string describe_registration() const;

  /// One line for people of a window of all PEs; number 0 is the heap: its memory here, and how
  /// peers and NICs reach it.
  std::string describe(const WindowHandle& window) const;

  /// Ends the mappings of the peers' memory. No kernel may run any more.
  void unmap();

 private:
  /// A window, and what ends with it.
  struct Entry {
    Range range;
    uint64_t serial;  // counts the windows of all PEs, the heap being 0; 0 of those of this PE, too
    std::vector<nic::MemoryRegion> regions;
    PeerMemory mapped;
    PinnedRange pinned;
  };
  using Entries = std::map<uint32_t, Entry>;

  WindowRequest request(const std::byte* address, size_t bytes, const WindowOptions& options) const;
  WindowHandle add(const std::vector<WindowRequest>& requests, std::byte* address, size_t bytes,
                   int fd);
  uint32_t add_mapped(Range range, const std::vector<WindowRequest>& requests, PeerMemory memory);
  uint32_t publish(const Window& window, const PublishedWindows::Reached& reached);
  void keep_wanted(PeerMemory& memory, const std::vector<WindowRequest>& requests) const;
  void end_freed();
  void end_local(uint32_t number);
  bool must_dump(bool off_gpu) const;
  Window window_of(const Range& range, const RailKeys& lkeys) const;
  void keep(uint32_t number, Entry entry);
  void forget(Entries::iterator entry);
  const Range* around(const std::byte* address, size_t bytes) const;

  LiveGroup& group_;
  PublishedWindows& published_;
  WindowTransports transports_;
  std::function<void(const std::byte*)> before_end_;
  Entries entries_;                                     // by number
  std::multimap<const std::byte*, uint32_t> by_begin_;  // numbers of those that are not empty
  uint64_t serial_ = 0;                                 // what the next window of all PEs gets
  // The windows with WindowOptions::cached. Those of all PEs are kept by serial, with their
  // numbers, for all PEs have the same ones; those of add_local() by number.
  RegistrationCache cache_;
  std::map<uint64_t, uint32_t> cached_;
  RegistrationCache local_cache_;
};

/// Memory of this PE as calls from the host may name it: what one allocation of the heap holds, or
/// one window or registered range beside the heap. A range that leaves it would take along what
/// lies next to it.
struct OwnMemory {
  const SymmetricHeap& heap;
  const Windows& windows;

  /// Throws kInvalidArgument, naming `call`, unless [at, at + bytes) is such memory; else answers
  /// the window that it lies in. `bytes` is not 0.
  const Windows::Range& holding(const char* call, const void* at, size_t bytes) const;
};

}  // namespace peal
