// SPDX-License-Identifier: Apache-2.0
//
// PEs of one host without kernels: each has a heap, an order checker and a context, and its calls
// are told to the checker by hand. Calls that write flags and data do it at once, so that words
// and sources look as they would.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "host/check/order_checker.h"

namespace peal::checking {

inline constexpr uint64_t kHeap = 1 << 20;

// Where scenes have their data and words: offsets in a heap, far from one another.
inline constexpr uint64_t kData = 4096;
inline constexpr uint64_t kOther = 8192;
inline constexpr uint64_t kFlag = 64;
inline constexpr uint64_t kBytes = 1000;

/// A call that has begun: end() tells that it has returned.
struct BegunCall {
  BegunCall(OrderChecker& its_checker, const ContextState& its_context, const CallNote& its_note)
      : checker(its_checker), context(its_context), note(its_note) {
    checker.begin(&context, note);
  }
  void end(Status status = Status::kOk) { checker.end(&context, note, status); }

  OrderChecker& checker;
  const ContextState& context;
  CallNote note;
};

class RiggedPe {
 public:
  RiggedPe(std::shared_ptr<const Segment> segment, int pe, std::vector<int> pes, int job_pes,
           std::vector<std::vector<std::byte>>& heaps)
      : pe_(pe), heaps_(heaps), heap_(heaps[static_cast<size_t>(pe)].data()) {
    OrderConfig config;
    config.pe = pe;
    config.job_pes = job_pes;
    for (const int other : pes) {
      config.mapped.push_back(heaps[static_cast<size_t>(other)].data());
    }
    config.pes = std::move(pes);
    config.heap = heap_;
    config.place_of = [this](const void* at) {
      return "byte " + std::to_string(static_cast<const std::byte*>(at) - heap_);
    };
    config.report = [this](const std::string& text) { reports.push_back(text); };
    checker = std::make_unique<OrderChecker>(std::move(segment), std::move(config));
    context.fields.pe = pe;
    other_context.fields.pe = pe;
    other_context.fields.slot = 1;
  }

  std::byte* at(uint64_t offset) const { return heap_ + offset; }

  // Calls that return when they are done, as far as their caller is concerned.
  void put(int to, uint64_t dst, uint64_t bytes, uint64_t src) {
    copy(to, dst, pe_, src, bytes);
    call(transfer(Call::kPut, to, dst, bytes, src));
  }
  void get(int from, uint64_t src, uint64_t bytes, uint64_t dst) {
    copy(pe_, dst, from, src, bytes);
    call(transfer(Call::kGet, from, src, bytes, dst));
  }
  void put_signal(int to, uint64_t dst, uint64_t bytes, uint64_t src, uint64_t word) {
    CallNote note = transfer(Call::kPutSignal, to, dst, bytes, src);
    note.word = at(word);
    note.starts = 1;
    note.queue = call(note, ticket());
    note.index = next_;
    set(to, word);
    wait(note);
  }
  void p(int to, uint64_t word) { of_word(Call::kP, to, word, true); }
  void g(int from, uint64_t word) { of_word(Call::kG, from, word, false); }
  void add(int to, uint64_t word) { of_word(Call::kAtomicAdd, to, word, true); }
  void fetch_add(int to, uint64_t word) { of_word(Call::kAtomicFetchAdd, to, word, true); }
  void signal(int to, uint64_t word) { of_word(Call::kSignal, to, word, true, true); }
  /// As NVSHMEM's guide has it.
  void relaxed_signal(int to, uint64_t word) { of_word(Call::kSignal, to, word, true); }
  void see(uint64_t word, uint64_t words = 1) {
    CallNote note = of(Call::kWaitUntil, pe_);
    note.there = at(word);
    note.there_bytes = words * 8;
    call(note);
  }
  void look_in_vain(uint64_t word) {
    CallNote note = of(Call::kWaitUntil, pe_);
    note.there = at(word);
    note.there_bytes = 8;
    BegunCall(*checker, context, note).end(Status::kTimeout);
  }
  void quiet(int to = -1) { call(of(Call::kQuiet, to)); }
  void fence(int to = -1) { call(of(Call::kFence, to)); }

  // Calls that only start.
  CallNote put_nbi(int to, uint64_t dst, uint64_t bytes, uint64_t src) {
    copy(to, dst, pe_, src, bytes);
    return start(transfer(Call::kPut, to, dst, bytes, src));
  }
  CallNote get_nbi(int from, uint64_t src, uint64_t bytes, uint64_t dst) {
    return start(transfer(Call::kGet, from, src, bytes, dst));
  }
  CallNote fetch_nbi(int from, uint64_t word, uint64_t dst) {
    return start(transfer(Call::kAtomicFetchAdd, from, word, 8, dst));
  }
  void wait(const CallNote& of_what) {
    CallNote note = of(Call::kWait, -1);
    note.queue = of_what.queue;
    note.index = of_what.index;
    call(note);
  }

  void plain(int owner, uint64_t offset, uint64_t bytes, bool write, bool atomic = false) {
    std::byte* const address = heaps_[static_cast<size_t>(owner)].data() + offset;
    checker->plain({address, bytes, write, atomic, 0, 0});
  }

  /// A meeting in halves: all of its PEs enter before one leaves.
  BegunCall enter(Call which, uint64_t team = 0) { return enter(of_team(which, team)); }
  BegunCall enter(const CallNote& note) { return {*checker, context, note}; }
  BegunCall enter_other(Call which) { return {*checker, other_context, of(which, -1)}; }
  CallNote of_team(Call which, uint64_t team, uint64_t dst = 0, uint64_t src = 0,
                   uint64_t bytes = 0) {
    CallNote note = of(which, -1);
    note.number = team;
    if (bytes != 0) note.there = at(dst), note.here = at(src);
    note.there_bytes = note.here_bytes = bytes;
    return note;
  }

  CallNote transfer(Call which, int pe, uint64_t there, uint64_t bytes, uint64_t here) {
    CallNote note = of(which, pe);
    note.there = at(there);
    note.here = at(here);
    note.there_bytes = note.here_bytes = bytes;
    return note;
  }
  CallNote start(CallNote note) {
    note.starts = 1;
    note.queue = call(note, ticket());
    note.index = next_;
    return note;
  }

  std::unique_ptr<OrderChecker> checker;
  ContextState context{};
  ContextState other_context{};
  std::vector<std::string> reports;

 private:
  static CallNote of(Call which, int pe) {
    CallNote note;
    note.call = which;
    note.pe = pe;
    return note;
  }
  const void* ticket() {
    ++next_;
    return this;
  }
  const void* call(const CallNote& note, const void* queue = nullptr) {
    BegunCall made(*checker, context, note);
    if (queue != nullptr) {
      made.note.queue = queue;
      made.note.index = next_;
    }
    made.end();
    return queue;
  }
  void of_word(Call which, int to, uint64_t word, bool writes, bool releases = false) {
    CallNote note = of(which, to);
    note.releases = releases ? 1 : 0;
    note.there = at(word);
    note.there_bytes = 8;
    call(note);
    if (writes) set(to, word);
  }
  void set(int to, uint64_t word) {  // a PE of another host has no heap here
    const auto pe = static_cast<size_t>(to);
    if (pe < heaps_.size()) heaps_[pe][word] = std::byte{1};
  }
  void copy(int to, uint64_t dst, int from, uint64_t src, uint64_t bytes) {
    std::memmove(heaps_[static_cast<size_t>(to)].data() + dst,
                 heaps_[static_cast<size_t>(from)].data() + src, bytes);
  }

  int pe_;
  std::vector<std::vector<std::byte>>& heaps_;
  std::byte* heap_;
  uint64_t next_ = 0;
};

class OrderRig {
 public:
  explicit OrderRig(int pes, int job_pes = 0) {
    heaps_.assign(static_cast<size_t>(pes), std::vector<std::byte>(kHeap));
    const Segment::Shape shape{pes, kHeap};
    auto made = std::make_shared<const Segment>(Segment::create(shape));
    segment_ = made;
    std::vector<int> all;
    for (int pe = 0; pe < pes; ++pe) all.push_back(pe);
    for (int pe = 0; pe < pes; ++pe) {
      // Each has a mapping of its own, as processes have.
      auto mine =
          pe == 0 ? made : std::make_shared<const Segment>(Segment::open(made->file(), shape));
      pes_.push_back(std::make_unique<RiggedPe>(std::move(mine), pe, all,
                                                job_pes == 0 ? pes : job_pes, heaps_));
    }
  }

  const Segment& segment() const { return *segment_; }
  RiggedPe& operator[](int pe) { return *pes_[static_cast<size_t>(pe)]; }

  /// A meeting of `members`, or of all.
  void meet(Call which, const std::vector<int>& members = {}, uint64_t team = 0) {
    std::vector<BegunCall> calls;
    for (const int pe : members.empty() ? everybody() : members) {
      calls.push_back((*this)[pe].enter(which, team));
    }
    for (BegunCall& call : calls) call.end();
  }
  void barrier_all() { meet(Call::kBarrierAll); }
  void sync_all() { meet(Call::kSyncAll); }
  /// A collective call of the host; `between` is what each PE does in it.
  void host_meeting(const std::function<void(RiggedPe&)>& between = [](RiggedPe&) {}) {
    for (auto& pe : pes_) pe->checker->everybody_meets();
    for (auto& pe : pes_) between(*pe);
    for (auto& pe : pes_) pe->checker->everybody_met();
  }

  /// Everything that was told, by all PEs.
  std::string told() const {
    std::string all;
    for (const auto& pe : pes_) {
      for (const std::string& report : pe->reports) all += report + "\n";
    }
    return all;
  }

  /// Whether it contains `text`.
  ::testing::AssertionResult says(const std::string& text) const {
    if (told().find(text) != std::string::npos) return ::testing::AssertionSuccess();
    return ::testing::AssertionFailure() << "not told: " << text << "\ntold:\n" << told();
  }
  ::testing::AssertionResult silent() const {
    if (told().empty()) return ::testing::AssertionSuccess();
    return ::testing::AssertionFailure() << "told:\n" << told();
  }

 private:
  std::vector<int> everybody() const {
    std::vector<int> all;
    for (size_t pe = 0; pe < pes_.size(); ++pe) all.push_back(static_cast<int>(pe));
    return all;
  }

  std::shared_ptr<const Segment> segment_;
  std::vector<std::vector<std::byte>> heaps_;
  std::vector<std::unique_ptr<RiggedPe>> pes_;
};

}  // namespace peal::checking
