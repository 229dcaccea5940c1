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
#include "host/memory/backing.h"
#include "host/windows/window_index.h"

namespace peal {

class StoreList;

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

  /// How one window is reached at the PEs: one entry for each PE, or none at all; a key by each
  /// rail.
  struct Reached {
    std::span<const NicKey> rkeys = {};       // for payload, [rails][n_pes]
    std::span<const NicKey> word_rkeys = {};  // for words; as many as rkeys
    std::span<std::byte* const> direct = {};
    std::span<const WindowPart> parts = {};  // none: all as `window` says
  };
  /// A window that is written down, and that no kernel finds yet.
  class Draft;

  /// Writes a window down, in the place of a draft that was not published. What `window` says of
  /// `reached` does not matter. Throws as check_room() does.
  Draft fill(Window window, const Reached& reached);

  /// Lets kernels find the window of the newest draft. Answers its number; the first one, 0, is the
  /// heap's.
  uint32_t publish(const Draft& draft);

  /// No kernel finds the window any more; none may be using it. Its number is used again as late as
  /// may be.
  void hide(uint32_t number);

  /// The window, not the heap, in which kernels find an address (WindowSpan), or 0. For a `peer`
  /// that is one that all PEs registered.
  uint32_t number_at(const void* address, bool peer) const;

  /// Kernels find no part of a `masked` PE any more.
  void leave_out(std::span<const int> masked);

  /// What every context has of window 0, the heap, beside the table: a copy of its entry, and where
  /// the near PEs' parts are mapped. Near are the first PE whose part is mapped (INT32_MAX if there
  /// is none) and those behind it.
  struct Heap {
    Window window{};
    int32_t near_first = INT32_MAX;
    std::array<std::byte*, kNearPes> near{};
  };
  const Heap& heap() const { return heap_; }

  /// The keys of one window at all PEs, [rails][n_pes].
  struct Keys {
    std::vector<NicKey> payload;
    std::vector<NicKey> words;
  };
  Keys heap_keys() const;

 private:
  /// Where a window's entries by PE lie.
  struct ByPe {
    WindowPart* parts;
    std::byte** direct;
    NicKey* rkeys;
    NicKey* word_rkeys;
  };
  /// What the host remembers of an entry; `bytes` is 0 while it is not in use.
  struct Entry {
    std::byte* base = nullptr;
    uint64_t bytes = 0;
    bool used = false;
    bool peer = false;
    WindowNearAt near = {};
  };
  using NearParts = std::array<WindowNear, kNearPes>;

  WindowTable* published() const { return reinterpret_cast<WindowTable*>(memory_.address()); }
  uint32_t next_number() const;
  ByPe by_pe(uint32_t number) const;
  void make_room(uint32_t number);
  size_t bytes_by_pe() const;
  void add_near(StoreList& stores, uint32_t number, const NearParts& parts) const;
  void add_index(StoreList& stores);
  void carry_out(StoreList& stores);  // and raises the version
  void add_near_lines(Draft& draft, int32_t near_first, const Reached& reached) const;

  Make make_;
  size_t n_pes_;
  size_t keys_;
  Backing memory_;
  std::vector<Backing> blocks_;    // hold ByPe: published_windows.cc
  std::vector<Entry> entries_;     // by number
  std::deque<uint32_t> free_;      // hidden ones, the first of them in front
  std::vector<WindowSpan> spans_;  // the index's
  Heap heap_;
  uint32_t in_use_ = 0;
  uint32_t version_ = 0;
  uint64_t drafts_ = 0;  // near lines are marked by this count
  uint32_t next_index_ = 0;
};

class PublishedWindows::Draft {
  friend class PublishedWindows;
  uint32_t number_ = 0;
  Window window_{};
  Entry entry_;
  NearParts near_{};
  Heap heap_;  // if it is the heap's
};

}  // namespace peal
