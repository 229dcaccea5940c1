// SPDX-License-Identifier: Apache-2.0
//
// The order of accesses, in checked mode on CPUs: two accesses to the same bytes of a PE's
// symmetric heap by different PEs, at least one a write, that nothing orders; and what a PE does to
// memory that an operation of its own still needs. docs/checking.md has the model.
//
//   lanes     begin(), end(), plain()                     one checker for each PE
//   host      everybody_meets(), <a collective call>, everybody_met(); freed() between the two
//   PEs of the host share a Segment: clocks, words, the shadow of each heap
//
// In doubt accesses count as ordered: it misses some races, and tells of none in right programs.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "device/context.h"
#include "device/shared/call_note.h"
#include "host/check/pending.h"
#include "host/check/segment.h"
#include "host/check/shadow.h"
#include "host/check/sites.h"

namespace peal::checking {

// What an access of up to this many bytes touches may be flags: its words are looked at one by one.
inline constexpr uint64_t kFlagBytes = 1024;

struct OrderConfig {
  int pe = 0;
  int job_pes = 1;
  std::vector<int> pes;             // those of this host, ascending, alike at all of them
  const std::byte* heap = nullptr;  // of this PE; Segment::Shape::heap_bytes long
  /// Heaps of `pes` as they are mapped here, null where one is not; empty: none is.
  std::vector<const std::byte*> mapped;
  /// "byte 8 of the 128 bytes at heap offset 0x2001280", of an address in this PE's heap.
  std::function<std::string(const void*)> place_of;
  /// Told of each mistake once, from the lane or thread that finds it. Must not call a checker.
  std::function<void(const std::string&)> report;
};

/// The checker of one PE. All calls are thread-safe, and none waits for another PE.
class OrderChecker {
 public:
  /// `segment` must be that of all of config.pes. Throws Error kInvalidArgument where config does
  /// not fit it.
  OrderChecker(std::shared_ptr<const Segment> segment, OrderConfig config);

  /// What is not looked at in this job, for a message at the start; "" if nothing is left out.
  std::string unseen() const;

  /// The first wait or test of this PE's kernels that held although a put of the flag's writer to
  /// this PE was not ordered before it: what they read by loads of their own may be old. "" if
  /// there was none.
  std::string unordered_wait() const;

  /// The leader of the scope calls it before a call of a kernel.
  void begin(const ContextState* context, const CallNote& note);
  /// The leader calls it after that call: the same note, with its ticket, and what the call
  /// answered.
  void end(const ContextState* context, const CallNote& note, Status status);

  /// A load or store of a kernel that is no call. An `atomic` one orders as if it released and
  /// acquired, whatever its `order`: what fences stand beside it is not known. Nothing where the
  /// library makes it (simt::in_library()).
  struct Plain {
    const void* address;
    uint64_t bytes;
    bool write;
    bool atomic;
    int order;
    uint64_t place;  // simt/lanes/place.h; 0: the caller's
  };
  void plain(const Plain& access);

  /// Around each collective call of the host (malloc, free, barrier, splits of teams), at all PEs
  /// in the same order: what was done before is ordered before what is done behind. everybody_met()
  /// alone orders more than that, for other PEs may have gone on by then: it is for calls of some
  /// PEs only, such as splits of a team.
  void everybody_meets();
  void everybody_met();
  /// [address, address + bytes) of the symmetric heap is given back: between the two, once all PEs
  /// have called everybody_meets(). Tells of operations that are under way there.
  void freed(const void* address, uint64_t bytes);

  /// The operations under way were given up (Runtime::recover()).
  void recovered();

 private:
  struct SymmetricOffset {
    int owner = -1;  // its index among `pes`; -1: in no heap of this host
    uint64_t offset = 0;
  };
  struct Touch {
    int owner;
    ByteRows rows;  // by this PE's addresses of symmetric memory
    uint64_t flags;
    uint16_t site;
    uint32_t stamp;
  };
  /// How a release speaks for transfers to the PE that has the word.
  enum class Vouches { kNothing, kFenced, kAll };

  int index_of(int pe) const;
  SymmetricOffset place_of_address(const void* address) const;
  bool in_heap(const ByteRows& rows, uint64_t row, uint64_t* offset) const;
  uint32_t now() const { return segment_->stamp(me_).load(std::memory_order_acquire); }
  Knowledge mine() const { return segment_->knowledge(me_); }
  bool off() const { return off_.load(std::memory_order_relaxed); }

  // accesses.cc: what calls do to memory.
  void touch(const Touch& touch);
  Known known_of(int owner) const;
  void data_of(const CallNote& note, uint16_t site);
  void check_pending(const CallNote& note, uint16_t site);
  void check_pending(const ByteRows& here, bool write, uint16_t site);
  void begin_pending(const ContextState* context, const CallNote& note, uint16_t site);
  void expect_unchanged(const PendingList::Which& which, uint16_t site);
  void complete(const PendingList::Which& which);

  // ordering.cc: what calls order.
  void bump();
  void release_into(const Knowledge& to, int target, Vouches vouches);
  void release_word(int owner, const void* word, Vouches vouches);
  void acquire_words(int owner, const void* first, uint64_t bytes, bool at_home);
  bool acquire_word(int owner, uint64_t offset);
  void ordered_by(const ContextState* context, const CallNote& note);
  void look_for_puts(const CallNote& note);
  void acquire_current(int pe);
  void acquire_everything();
  void completed_up_to(int owner, uint32_t stamp);
  void meet(uint64_t key, bool drains);
  void met(uint64_t key, Status status);
  PendingList::Which acknowledged() const;

  // report.cc: how it is told.
  void tell_conflict(const Touch& touch, const Conflict& conflict);
  void tell_pending(const Pending& pending, uint16_t site, const char* what);
  bool is_news(uint16_t one, uint16_t other);
  std::string who(int index, uint16_t site) const;
  std::string remedy(const Touch& touch, const ShadowSlot& other) const;

  std::shared_ptr<const Segment> segment_;
  const OrderConfig config_;
  int me_ = 0;  // index among config_.pes
  Sites sites_;
  std::atomic<bool> off_{false};

  std::mutex pending_mutex_;
  PendingList pending_;
  std::atomic<bool> any_pending_{false};

  std::mutex meetings_mutex_;
  std::map<uint64_t, uint64_t> meetings_;  // how many of each this PE has entered
  bool host_meets_ = false;

  mutable std::mutex told_mutex_;
  std::set<std::pair<std::string, std::string>> told_;
  std::string unordered_wait_;
};

}  // namespace peal::checking
