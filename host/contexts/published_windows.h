// SPDX-License-Identifier: Apache-2.0
//
// The windows as kernels see them: the WindowTable, the index by which they find a window of an
// address, and what differs from PE to PE. Windows come and go while kernels run.
//
//   [ WindowTable | WindowIndex x 2 ]   one index is in use, the other is written next
//   by PE, for each window: [ parts | direct | rkeys | word rkeys ], keys as [rails][n_pes]
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <vector>

#include "device/context.h"
#include "host/contexts/store_list.h"
#include "host/contexts/window_index.h"
#include "host/memory/backing.h"

namespace peal {

/// Not thread-safe.
class PublishedWindows {
 public:
  /// Zeroed memory that kernels reach.
  using Make = std::function<Backing(size_t bytes)>;

  PublishedWindows(Make make, int n_pes, uint32_t rails);

  const WindowTable* table() const;
  size_t bytes() const;

  /// Throws kInvalidArgument when kMaxWindows are in use.
  void check_room() const;
  uint32_t in_use() const { return in_use_; }

  /// One window as it is reached at the PEs: one entry for each, or none at all; a key by each
  /// rail.
  struct Reached {
    std::span<const Be32> rkeys = {};       // for payload, [rails][n_pes]
    std::span<const Be32> word_rkeys = {};  // for words; as many as rkeys
    std::span<std::byte* const> direct = {};
    std::span<const WindowPart> parts = {};  // none: all as `window` says
  };
  /// Writes down one window more, which no kernel finds yet, in the place of one that was written
  /// and not shown. What `window` says of `reached` does not matter. Answers the entry as it is.
  Window fill(Window window, const Reached& reached);

  /// Shows kernels the window that fill() was told of last. Answers its number.
  uint32_t publish();

  /// No kernel finds the window any more; none may be using it. Its number is used again as late as
  /// may be.
  void hide(uint32_t number);

  /// The window beside the heap that an address is of for kernels (WindowSpan), for a peer of those
  /// that all PEs registered; 0: none.
  uint32_t number_at(const void* address, bool peer) const;

  /// Shows `masked` PEs nowhere any more.
  void leave_out(std::span<const int> masked);

  /// The first PE whose part of window 0, the heap, is mapped: the near ones are that and those
  /// behind it. INT32_MAX if there is none.
  int32_t near_first() const { return near_first_; }

  /// The keys of window 0, the heap, [rails][n_pes].
  struct HeapKeys {
    std::vector<Be32> payload;
    std::vector<Be32> words;
  };
  HeapKeys heap_keys() const;

 private:
  /// Where a window's entries by PE lie.
  struct ByPe {
    WindowPart* parts;
    std::byte** direct;
    Be32* rkeys;
    Be32* word_rkeys;
  };
  /// What is known of an entry; of one that is not in use `bytes` is 0.
  struct Entry {
    std::byte* base = nullptr;
    uint64_t bytes = 0;
    bool used = false;
    bool peer = false;
    WindowNearAt near = {};
  };
  using NearParts = std::array<WindowNear, kNearPes>;
  struct NearLines {
    WindowNearAt by_address = {};
    NearParts by_number = {};
  };

  WindowTable* shown() const { return reinterpret_cast<WindowTable*>(memory_.address()); }
  uint32_t next_number() const;
  ByPe by_pe(uint32_t number) const;
  void make_room(uint32_t number);
  size_t bytes_by_pe() const;
  void add_near(StoreList& stores, uint32_t number, const NearParts& parts) const;
  void add_index(StoreList& stores);
  void carry_out(StoreList& stores);  // a change
  NearLines near_lines(const Window& window, const Reached& reached) const;

  Make make_;
  size_t n_pes_;
  size_t keys_;
  Backing memory_;
  std::vector<Backing> blocks_;    // of entries by PE: published_windows.cc
  std::vector<Entry> entries_;     // by number
  std::deque<uint32_t> free_;      // numbers of before, the one that was hidden first in front
  std::vector<WindowSpan> spans_;  // of the index
  Entry filled_;                   // the one that is to be shown
  NearLines near_;                 // of the same
  int32_t near_first_ = INT32_MAX;
  uint32_t in_use_ = 0;
  uint32_t version_ = 0;
  uint64_t marks_ = 0;  // of near lines, so far
  uint32_t next_index_ = 0;
};

}  // namespace peal
