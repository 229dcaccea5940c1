// SPDX-License-Identifier: Apache-2.0
//
// What calls order: what is released on a word or at a meeting, and who learns of it.
// docs/checking.md, "What orders".

#include "host/check/order_checker.h"

namespace peal::checking {
namespace {

bool is_zero(const std::byte* at, uint64_t bytes) {
  for (uint64_t i = 0; i < bytes; ++i) {
    if (__atomic_load_n(reinterpret_cast<const unsigned char*>(at) + i, __ATOMIC_RELAXED) != 0) {
      return false;
    }
  }
  return true;
}

}  // namespace

void OrderChecker::bump() {
  if (segment_->stamp(me_).fetch_add(1, std::memory_order_acq_rel) + 1 < kMaxStamp) return;
  if (off_.exchange(true)) return;
  config_.report("PE " + std::to_string(config_.pe) +
                 ": the order of accesses is no longer checked: the PE has released 2^31 times");
}

void OrderChecker::release_into(const Knowledge& to, int target, Vouches vouches) {
  const uint32_t stamp = now();
  raise(mine().at(me_, me_), stamp);
  to.join(mine());
  if (vouches == Vouches::kFenced) {
    raise(to.at(target, me_), segment_->fenced(me_, target).load(std::memory_order_acquire));
  } else if (vouches == Vouches::kAll) {
    raise(to.at(target, me_), stamp);
  }
}

void OrderChecker::release_word(int owner, const void* word, Vouches vouches) {
  const ByteRows at{static_cast<const std::byte*>(word), 1, 1, 0};
  uint64_t offset;
  if (owner < 0 || word == nullptr || !in_heap(at, 0, &offset)) return;
  const Segment::Released to = segment_->word(owner, offset, true);
  if (to.found) release_into(to.what, owner, vouches);
  bump();
}

bool OrderChecker::acquire_word(int owner, uint64_t offset) {
  const Segment::Released from = segment_->word(owner, offset, false);
  if (from.full) acquire_everything();
  if (from.found) mine().join(from.what);
  return from.full || from.found;
}

void OrderChecker::acquire_words(int owner, const void* first, uint64_t bytes, bool at_home) {
  const ByteRows at{static_cast<const std::byte*>(first), bytes, 1, 0};
  uint64_t begin;
  // Nothing is known of other hosts, nor of words in windows.
  const bool here = owner >= 0 && in_heap(at, 0, &begin);
  if (config_.job_pes != segment_->shape().pes || !here) return acquire_everything();
  if (!at_home && bytes > kFlagBytes) return;
  const bool sees_plain = segment_->sees_plain().load(std::memory_order_relaxed) != 0;
  for (uint64_t offset = begin; offset < begin + bytes; offset = (offset / 8 + 1) * 8) {
    const uint64_t end = std::min((offset / 8 + 1) * 8, begin + bytes);
    bool known = false;
    for (uint64_t part = offset; part < end; part += 4) known |= acquire_word(owner, part);
    // A flag that came by a put: what its writers had ordered by now.
    const uint64_t writers = writers_of_data(segment_->shadow(owner), offset);
    for (int pe = 0; pe < segment_->shape().pes; ++pe) {
      if ((writers >> pe & 1) != 0 && pe != me_) acquire_current(pe);
    }
    if (known || writers != 0 || sees_plain) continue;
    // A store that nobody told of.
    if (!at_home && owner != me_) acquire_current(owner);
    if (at_home && !is_zero(config_.heap + offset, end - offset)) acquire_everything();
  }
  complete(acknowledged());
}

// What a quiet has completed, or a fence has put in order.
void OrderChecker::ordered_by(const ContextState* context, const CallNote& note) {
  const int owner = index_of(note.pe);
  const bool done = note.call == Call::kQuiet;
  if (done) {
    complete(
        [&](const Pending& p) { return p.context == context && (note.pe < 0 || p.pe == note.pe); });
  }
  for (int pe = 0; pe < segment_->shape().pes; ++pe) {
    if (note.pe >= 0 && pe != owner) continue;
    if (done) {
      completed_up_to(pe, now());
    } else {
      raise(segment_->fenced(me_, pe), now());
    }
  }
  bump();
}

// What the kernel does about it is not known: it may read the data by a call, which is looked at,
// or by loads of its own.
void OrderChecker::look_for_puts(const CallNote& note) {
  uint64_t begin;
  const ByteRows at{static_cast<const std::byte*>(note.there), note.there_bytes, 1, 0};
  if (index_of(note.pe) != me_ || !in_heap(at, 0, &begin)) return;
  for (uint64_t part = begin; part < begin + note.there_bytes; part += 4) {
    const Segment::Released from = segment_->word(me_, part, false);
    for (int pe = 0; from.found && pe < segment_->shape().pes; ++pe) {
      const uint32_t put = segment_->put(pe, me_).load(std::memory_order_acquire);
      const bool before = put != 0 && put <= from.what.at(pe, pe).load(std::memory_order_acquire);
      const bool ordered = put <= mine().at(me_, pe).load(std::memory_order_acquire);
      if (pe == me_ || !before || ordered) continue;
      const std::lock_guard lock(told_mutex_);
      if (!unordered_wait_.empty()) return;
      unordered_wait_ = sites_.text(sites_.here(operation_of(note), 0)) +
                        ", held for a flag of PE " +
                        std::to_string(config_.pes[static_cast<size_t>(pe)]) +
                        ", whose put before it nothing orders before the flag";
    }
  }
}

std::string OrderChecker::unordered_wait() const {
  const std::lock_guard lock(told_mutex_);
  return unordered_wait_;
}

void OrderChecker::acquire_current(int pe) {
  Stamp& clock = segment_->stamp(pe);
  uint32_t stamp = clock.load(std::memory_order_acquire);
  mine().join(segment_->knowledge(pe));
  raise(mine().at(pe, pe), stamp);
  for (int owner = 0; owner < segment_->shape().pes; ++owner) {
    raise(mine().at(owner, pe), segment_->fenced(pe, owner).load(std::memory_order_acquire));
  }
  clock.compare_exchange_strong(stamp, stamp + 1);  // what it does from now on is not meant
}

void OrderChecker::acquire_everything() {
  for (int pe = 0; pe < segment_->shape().pes; ++pe) {
    Stamp& clock = segment_->stamp(pe);
    uint32_t stamp = clock.load(std::memory_order_acquire);
    if (pe == me_) continue;
    mine().join_all_of(pe, stamp);
    clock.compare_exchange_strong(stamp, stamp + 1);
  }
}

void OrderChecker::completed_up_to(int owner, uint32_t stamp) {
  if (owner >= 0) raise(mine().at(owner, me_), stamp);
}

void OrderChecker::meet(uint64_t key, bool drains) {
  uint64_t count;
  {
    const std::lock_guard lock(meetings_mutex_);
    count = ++meetings_[key];
  }
  if (drains) {
    for (int pe = 0; pe < segment_->shape().pes; ++pe) completed_up_to(pe, now());
  }
  const Segment::Released to = segment_->meeting(key, static_cast<int>(count % 2));
  if (to.found) release_into(to.what, me_, Vouches::kNothing);
  bump();
}

void OrderChecker::met(uint64_t key, Status status) {
  std::atomic<uint32_t>& failed = segment_->meeting_failed();
  if (status != Status::kOk) failed.store(1, std::memory_order_release);
  uint64_t count;
  {
    const std::lock_guard lock(meetings_mutex_);
    count = meetings_[key];
  }
  const Segment::Released from = segment_->meeting(key, static_cast<int>(count % 2));
  if (from.found) mine().join(from.what);
  // After a failure the PEs may not agree on how many meetings there were.
  const bool unsure = from.full || failed.load(std::memory_order_acquire) != 0 ||
                      config_.job_pes != segment_->shape().pes;
  if (unsure) acquire_everything();
  complete(acknowledged());
}

// Puts that somebody has seen who told this PE: their sources were read.
PendingList::Which OrderChecker::acknowledged() const {
  return [this](const Pending& p) {
    const int owner = index_of(p.pe);
    return !p.gets && owner >= 0 && mine().at(owner, me_).load() >= p.stamp;
  };
}

}  // namespace peal::checking
