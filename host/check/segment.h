// SPDX-License-Identifier: Apache-2.0
//
// What the order checkers of a host's PEs share: a file without a name, made by one of them and
// opened by the others through /proc, so nothing is left behind whatever ends the job. All of it
// begins as zeros and consists of atomic words: there are no locks.
//
//   stamps       by PE: grows with each release
//   knowledge    by PE: what is ordered before what it does now; `fenced` beside it
//   words        what was released on a word of a heap: a hash table that is never emptied
//   meetings     likewise of barriers and collective calls, two sets each, used in turn
//   sites        who made an access: a lane, its kernel and line
//   chunks       by owner: accesses to whole chunks of its heap
//   cells        by owner: all others, kSlots words for each granule. Sparse
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/fd.h"
#include "base/peer_file.h"
#include "host/check/heap_shadow.h"
#include "host/check/knowledge.h"
#include "host/check/slot.h"

namespace peal::checking {

/// An access that may be told of.
struct AccessSite {
  std::atomic<uint32_t> ready;
  uint32_t kind;  // an AccessKind
  uint32_t block;
  uint32_t thread;
  uint32_t has_lane;  // 0: of any lane, for the table is nearly full
  char kernel[60];
  char line[64];
};

class Segment {
 public:
  /// Alike at all PEs of the host. `heap_bytes` of each PE.
  struct Shape {
    int pes;
    uint64_t heap_bytes;
  };

  /// Throws Error kUnsupported for more than kMaxPes PEs, kSystem where memory cannot be had.
  static Segment create(const Shape& shape);
  /// Opens the segment of another PE that made it and still lives. Throws Error kSystem;
  /// kInvalidArgument where the shapes differ.
  static Segment open(const PeerFile& file, const Shape& shape);

  Segment(Segment&& other) noexcept;
  Segment& operator=(Segment&&) = delete;
  ~Segment();

  /// For open().
  PeerFile file() const;

  const Shape& shape() const { return shape_; }
  Stamp& stamp(int pe) const { return stamps_[pe]; }
  /// Puts of `pe` to `owner` up to this are ordered before its later p and atomics to that PE.
  Stamp& fenced(int pe, int owner) const { return fenced_[pe * shape_.pes + owner]; }
  /// When `pe` last put to `owner`.
  Stamp& put(int pe, int owner) const { return puts_[pe * shape_.pes + owner]; }
  Knowledge knowledge(int pe) const { return matrix(knowledge_, static_cast<uint64_t>(pe)); }

  /// What was released on the word at `offset` of the owner's heap; `make`: of which something is
  /// about to be. False in `found`: nothing, or (`full`) nobody knows.
  struct Released {
    bool found;
    bool full;
    Knowledge what;
  };
  Released word(int owner, uint64_t offset, bool make) const;
  /// The set of a meeting: `key` is not 0, `parity` 0 or 1.
  Released meeting(uint64_t key, int parity) const;

  /// A number for a new site, from 1 on; 0: there is no more room.
  uint16_t new_site() const;
  AccessSite& site(uint16_t number) const { return sites_[number]; }
  /// True once more than half of the sites are taken.
  bool short_of_sites() const;

  /// kSlots words for each granule of the owner's heap.
  std::atomic<uint64_t>* cells(int owner) const;
  HeapShadow shadow(int owner) const;

  /// Not 0 once some PE has told of a plain load or store.
  std::atomic<uint32_t>& sees_plain() const;
  /// Not 0 once a barrier or collective call has failed.
  std::atomic<uint32_t>& meeting_failed() const;

 private:
  struct Header;
  struct Plan;

  Segment(Fd file, const Shape& shape);
  static Plan plan(const Shape& shape);
  Knowledge matrix(std::byte* first, uint64_t number) const;
  Released look_up(std::atomic<uint64_t>* keys, uint64_t count, uint64_t key, bool make) const;

  Shape shape_;
  Fd file_;
  std::byte* base_ = nullptr;
  uint64_t bytes_ = 0;
  Header* header_ = nullptr;
  Stamp* stamps_ = nullptr;
  Stamp* fenced_ = nullptr;
  Stamp* puts_ = nullptr;
  std::byte* knowledge_ = nullptr;
  std::atomic<uint64_t>* word_keys_ = nullptr;
  std::byte* words_ = nullptr;
  uint64_t word_count_ = 0;
  std::atomic<uint64_t>* meeting_keys_ = nullptr;
  std::byte* meetings_ = nullptr;
  AccessSite* sites_ = nullptr;
  std::byte* chunks_ = nullptr;
  std::byte* cells_ = nullptr;
};

}  // namespace peal::checking
