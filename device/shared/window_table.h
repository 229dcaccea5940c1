// SPDX-License-Identifier: Apache-2.0
//
// The windows of a PE as kernels look them up, and the index that finds one by an address. The host
// fills both in while kernels run (host/windows/published_windows.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/base/target.h"
#include "device/shared/nic_key.h"

namespace peal {

inline constexpr uint32_t kMaxWindows = 8192;
/// PEs whose mapped heaps a context holds itself: the GPUs of one machine.
inline constexpr uint32_t kNearPes = 8;

/// The part of a window that a PE has, for others.
struct alignas(16) WindowPart {
  uint64_t iova;  // where it begins for NICs
  uint64_t bytes;
};

/// Memory of one PE, or one part of it at each PE, that operations transfer from and to. To a NIC
/// the part of a PE begins at an address of its own, `iova`, which is where in its page it begins:
/// verbs registers memory under no other address that suits all.
struct alignas(16) Window {
  std::byte* base;          // the part of this PE
  uint64_t bytes;           // of the same
  NicKey lkeys[kMaxRails];  // by rail; in the context itself for the heap
  const NicKey*
      rkeys;  // [rails][n_pes], for payload: may be registered with relaxed ordering. Null:
              // this PE alone registered it, good as a source or destination at home
  const NicKey* word_rkeys;  // the same memory with strict ordering: signals, atomics, p
  std::byte* const* direct;  // [n_pes]: where the peer's part is mapped here, or null
  uint16_t off_gpu = 0;      // 1: not in the memory of the GPU that runs the kernels
  uint16_t dumped = 0;       // 1: a completion does not say that what the NIC brought is here; a
                             // DUMP behind it does. Edge kAnswerBeforeDump
  uint32_t iova = 0;         // of the part of this PE
  const WindowPart* parts = nullptr;  // [n_pes]; null: all are as this PE's
};
static_assert(PEAL_LIES_AT(Window, bytes, 8), "base and bytes are read as one line");

/// Which windows an address is of: of those that hold it the one that ends last, and of several
/// that end there the one with the highest number. A range that any window holds that one holds,
/// too. It is good up to where the next span begins. Window 0 stands for none.
struct WindowSpan {
  uint64_t begin;
  uint32_t home;  // of all windows
  uint32_t peer;  // of those that all PEs registered
};

/// One entry of a hash table: the spans that a granule of addresses has bytes of.
struct WindowSlot {
  uint64_t granule;  // address >> shift
  uint32_t first;    // span
  uint32_t count;    // 0: an empty slot, at which a search ends
};

/// A lane may read a line while the host writes another one there. The upper 16 bits of each word
/// are the serial number of its window, not 0: a lane that finds two numbers takes the line for
/// none. A line of zeros sends it to the window's entry.
inline constexpr uint32_t kMarkShift = 48;

/// Where the part that a near PE (ContextFields::near) has of a window is mapped here.
struct alignas(16) WindowNear {
  uint64_t limit;  // bytes of the part + 1; marked, as all of it
  uint64_t there;
};

/// The same for all near PEs, by addresses of this PE's part: of its first bytes, as many as the
/// smallest part has.
struct alignas(16) WindowNearAt {
  uint64_t begin;            // marked, as all of it
  uint64_t limit;            // the end + 1
  uint64_t apart[kNearPes];  // how far behind `begin` the PE's part is, modulo 2^48; 0: not mapped
};

/// Finds windows by address. Only a hint: a lane may read one that the host is replacing, so
/// whoever is told of a window looks whether it holds the range.
struct WindowIndex {
  static constexpr uint32_t kSlots = 4 * kMaxWindows;
  static constexpr uint32_t kSpans = 2 * kMaxWindows;
  static constexpr uint32_t kProbes = 64;     // after which a search ends
  static constexpr uint32_t kNearProbes = 2;  // the same, of WindowNear: most are at the first

  /// Where the search for a granule begins, among 2 to the power of 32 - `drop` slots.
  PEAL_HD static uint32_t first_slot(uint64_t granule, uint32_t drop) {
    return static_cast<uint32_t>(granule) * 0x9e3779b9u >> drop;
  }

  WindowSlot slot[kSlots];
  WindowSpan span[kSpans];
  WindowNearAt near[kSlots];  // by slot: one of the windows that the granule has bytes of
};

/// The index that is in use, read as one line.
struct alignas(16) PublishedIndex {
  const WindowIndex* index;  // null: there is none
  uint32_t shift;            // of addresses
  uint32_t drop;             // WindowIndex::first_slot; the others' number follows from it
};

/// Window 0 is the symmetric heap. Windows come and go while contexts exist; entries that are not
/// in use are empty.
struct WindowTable {
  uint32_t version;  // goes up with every change, after it. Edge kWindowBeforeVersion
  uint32_t count;    // no entry from here on is in use
  uint32_t off_gpu;  // 1: there is, or was, a window with Window::off_gpu; set ahead of its entry
  PublishedIndex published;
  Window window[kMaxWindows];
  WindowNear near[kNearPes][kMaxWindows];
};

}  // namespace peal
