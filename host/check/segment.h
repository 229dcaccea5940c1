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
#include <memory>

#include "base/fd.h"
#include "base/peer_file.h"
#include "host/check/cell.h"
#include "host/check/shadow.h"

namespace peal::checking {

using Stamp = std::atomic<uint32_t>;
static_assert(Stamp::is_always_lock_free && sizeof(Stamp) == 4);

inline void raise(Stamp& stamp, uint32_t to) {
  uint32_t seen = stamp.load(std::memory_order_relaxed);
  while (seen < to && !stamp.compare_exchange_weak(seen, to, std::memory_order_acq_rel)) {
  }
}

/// What is ordered before a moment: a stamp for each owner of memory and each writer.
///
///   at(owner, writer)    transfers by `writer` to memory of `owner` with a stamp up to this
///   at(writer, writer)   besides, everything `writer` did that is complete when it returns: reads,
///                        and accesses to its own memory
///
/// Stamps only grow, each by itself, so nobody holds a lock: a PE that dies holds up nobody.
/// Whoever sees the value of a word finds what was released on it, for that is joined before the
/// value is sent.
class Knowledge {
 public:
  Knowledge(Stamp* stamps, int pes) : stamps_(stamps), pes_(pes) {}

  Stamp& at(int owner, int writer) const { return stamps_[owner * pes_ + writer]; }

  void join(const Knowledge& other) const {
    for (int i = 0; i < pes_ * pes_; ++i) {
      raise(stamps_[i], other.stamps_[i].load(std::memory_order_acquire));
    }
  }
  /// Everything that `writer` did up to `stamp`, its transfers included.
  void join_all_of(int writer, uint32_t stamp) const {
    for (int owner = 0; owner < pes_; ++owner) raise(at(owner, writer), stamp);
  }

 private:
  Stamp* stamps_;
  int pes_;
};

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

  /// For open().
  PeerFile file() const;

  const Shape& shape() const { return shape_; }
  Stamp& stamp(int pe) const { return part<Stamp>(plan_.stamps)[pe]; }
  /// Puts of `pe` to `owner` up to this are ordered before its later p and atomics to that PE.
  Stamp& fenced(int pe, int owner) const {
    return part<Stamp>(plan_.fenced)[pe * shape_.pes + owner];
  }
  /// When `pe` last put to `owner`.
  Stamp& put(int pe, int owner) const { return part<Stamp>(plan_.puts)[pe * shape_.pes + owner]; }
  Knowledge knowledge(int pe) const { return matrix(plan_.knowledge, static_cast<uint64_t>(pe)); }

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
  AccessSite& site(uint16_t number) const { return part<AccessSite>(plan_.sites)[number]; }
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
  /// Where each part begins.
  struct Plan {
    uint64_t stamps, fenced, puts, knowledge, word_keys, words, meeting_keys, meetings, sites,
        chunks, cells, end;
    uint64_t word_count;
  };
  struct Unmap {
    uint64_t bytes;
    void operator()(std::byte* base) const;
  };

  Segment(Fd file, const Shape& shape);
  static Plan plan(const Shape& shape);
  template <class T>
  T* part(uint64_t begin) const {
    return reinterpret_cast<T*>(base_.get() + begin);
  }
  Header& header() const { return *part<Header>(0); }
  Knowledge matrix(uint64_t first, uint64_t number) const;
  Released look_up(uint64_t keys, uint64_t first, uint64_t count, uint64_t key, bool make) const;

  Shape shape_;
  Plan plan_;
  Fd file_;
  std::unique_ptr<std::byte, Unmap> base_;
};

}  // namespace peal::checking
