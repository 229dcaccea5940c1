// SPDX-License-Identifier: Apache-2.0
#include "host/check/order_checker.h"

#include <optional>

#include "host/base/error.h"
#include "simt/lanes/place.h"

namespace peal::checking {
namespace {

// Operations of a context towards one PE, or towards all.
PendingList::Which towards(const ContextState* context, int pe) {
  return [=](const Pending& p) { return p.context == context && (pe < 0 || p.pe == pe); };
}

// What a ticket vouches for: a queue completes in order. Without a queue lanes copied themselves.
PendingList::Which up_to(const ContextState* context, const void* queue, uint64_t index) {
  return [=](const Pending& p) {
    if (p.context != context || p.queue != queue) return false;
    return queue == nullptr || static_cast<int64_t>(index - p.index) >= 0;
  };
}

// A number for each sequence of meetings, not 0.
constexpr uint64_t kHostMeeting = 1;
uint64_t meeting_of(const ContextState* context, const CallNote& note) {
  return is_of_all(note.call) ? uint64_t{context->fields.slot} << 2 | 2 : note.number << 2 | 3;
}

bool brings(Call call) { return call == Call::kGet || call == Call::kG || fetches(call); }

bool meets(Call call) { return is_of_all(call) || is_collective(call); }

}  // namespace

OrderChecker::OrderChecker(std::shared_ptr<const Segment> segment, OrderConfig config)
    : segment_(std::move(segment)), config_(std::move(config)), sites_(*segment_) {
  me_ = index_of(config_.pe);
  const auto pes = static_cast<size_t>(segment_->shape().pes);
  const bool fits = me_ >= 0 && config_.pes.size() == pes && config_.heap != nullptr &&
                    (config_.mapped.empty() || config_.mapped.size() == pes) && config_.report &&
                    config_.place_of;
  if (!fits) {
    fail(
        ErrorCode::kInvalidArgument,
        "order checker of PE {}: {} PEs of this host were given, {} mapped heaps and a heap at {}; "
        "it needs the {} PEs of its segment, this one among them, no mapped heap or one for each, "
        "a heap, place_of and report",
        config_.pe, config_.pes.size(), config_.mapped.size(), fmt::ptr(config_.heap), pes);
  }
  uint32_t unused = 0;  // stamp 0 is known to everybody
  segment_->stamp(me_).compare_exchange_strong(unused, 1);
}

std::string OrderChecker::unseen() const {
  const auto here = static_cast<int>(config_.pes.size());
  if (here == config_.job_pes) return "";
  return fmt::format(
      "PE {}: the order of accesses is checked among the {} PEs of this host; of the other {} PEs "
      "nothing is seen, and whatever waits for a word or meets others counts as ordered",
      config_.pe, here, config_.job_pes - here);
}

void OrderChecker::begin(const ContextState* context, const CallNote& note) {
  if (off()) return;
  const uint16_t site = sites_.here(operation_of(note), 0);
  check_pending(note, site);
  data_of(note, site);
  if (note.starts != 0) begin_pending(context, note, site);
  const int owner = index_of(note.pe);
  const ByteRows there = there_of(note);
  if (is_put(note.call)) {
    if (owner >= 0) raise(segment_->put(me_, owner), now());
    if (there.bytes <= sizeof(uint64_t) && there.count == 1) {
      release_word(owner, note.there, Vouches::kFenced);
    }
    if (note.word != nullptr) release_word(owner, note.word, Vouches::kAll);
  } else if (writes_word(note.call)) {
    release_word(owner, note.there, note.releases != 0 ? Vouches::kAll : Vouches::kFenced);
  } else if (is_of_ticket(note.call)) {
    expect_unchanged(up_to(context, note.queue, note.index), site);
  } else if (note.call == Call::kQuiet) {
    expect_unchanged(towards(context, note.pe), site);
  } else if (meets(note.call)) {
    if (drains(note.call)) {
      expect_unchanged(towards(context, -1), site);
      complete(towards(context, -1));
    }
    meet(meeting_of(context, note), drains(note.call));
  }
}

void OrderChecker::end(const ContextState* context, const CallNote& note, Status status) {
  if (off()) return;
  const bool ok = status == Status::kOk;
  const int owner = index_of(note.pe);
  if (note.starts != 0 && note.here != nullptr) {
    std::optional<Pending> changed;
    {
      const std::lock_guard lock(pending_mutex_);
      changed = pending_.started(context, note, ok);
    }
    if (changed) tell_pending(*changed, sites_.here(operation_of(note), 0), "changed");
    return;
  }
  if (is_of_words(note.call)) {
    if (!ok) return;
    acquire_words(owner, note.there, note.there_bytes, true);
    look_for_puts(note);
  } else if (brings(note.call) || is_put(note.call)) {
    if (!ok) return;
    if (brings(note.call)) {
      // It came behind what was posted to that PE before.
      completed_up_to(owner, now());
      complete(
          [&](const Pending& p) { return p.context == context && p.pe == note.pe && !p.gets; });
      if (note.there_bytes * note.rows <= kFlagBytes) {
        acquire_words(owner, note.there, note.there_bytes, false);
      }
    }
    if (note.queue != nullptr) complete(up_to(context, note.queue, note.index));
  } else if (is_of_ticket(note.call)) {
    if (ok) complete(up_to(context, note.queue, note.index));
  } else if (note.call == Call::kQuiet || note.call == Call::kFence) {
    ordered_by(context, note);
  } else if (meets(note.call)) {
    met(meeting_of(context, note), status);
  }
}

void OrderChecker::plain(const Plain& access) {
  if (off() || access.bytes == 0 || simt::in_library()) return;
  const SymmetricOffset place = place_of_address(access.address);
  if (place.owner < 0) return;
  const AccessKind operation = access.write ? AccessKind::kPlainStore : AccessKind::kPlainLoad;
  const uint16_t site = sites_.here(operation, access.place);
  std::atomic<uint32_t>& plain = segment_->sees_plain();
  if (plain.load(std::memory_order_relaxed) == 0) plain.store(1, std::memory_order_relaxed);
  const std::byte* const at = config_.heap + place.offset;
  const ByteRows rows{at, access.bytes, 1, 0};
  if (place.owner == me_) check_pending(rows, access.write, site);
  const uint64_t flags =
      (access.write ? ShadowSlot::kWrite : 0) | (access.atomic ? ShadowSlot::kWord : 0);
  touch({place.owner, rows, flags, site, now()});
  if (!access.atomic) return;
  if (access.write) release_word(place.owner, at, Vouches::kAll);
  acquire_words(place.owner, at, access.bytes, false);
}

void OrderChecker::everybody_meets() {
  if (off()) return;
  {
    const std::lock_guard lock(meetings_mutex_);
    host_meets_ = true;
  }
  meet(kHostMeeting, false);
}

void OrderChecker::everybody_met() {
  if (off()) return;
  bool began;
  {
    const std::lock_guard lock(meetings_mutex_);
    began = std::exchange(host_meets_, false);
  }
  if (began) {
    met(kHostMeeting, Status::kOk);
    // Transfers too: a host that goes on without waiting for them says so by no call of a kernel.
    for (int pe = 0; pe < segment_->shape().pes; ++pe) {
      mine().join_all_of(pe, pe == me_ ? now() : mine().at(pe, pe).load());
    }
    bump();
  } else {
    acquire_everything();
  }
  complete([](const Pending&) { return true; });
}

void OrderChecker::freed(const void* address, uint64_t bytes) {
  if (off() || bytes == 0) return;
  const SymmetricOffset place = place_of_address(address);
  if (place.owner != me_) return;
  met(kHostMeeting, Status::kOk);
  const uint16_t site = sites_.here(AccessKind::kFree, 0);
  const ByteRows block{config_.heap + place.offset, bytes, 1, 0};
  std::vector<Pending> under_way;
  {
    const std::lock_guard lock(pending_mutex_);
    under_way = pending_.matching(
        [&](const Pending& p) { return p.here.overlap(block) || p.there.overlap(block); });
  }
  for (const Pending& p : under_way) tell_pending(p, site, "freed");
  touch({me_, block, ShadowSlot::kWrite, site, now()});
  forget(segment_->shadow(me_), place.offset, place.offset + bytes);
}

void OrderChecker::recovered() {
  {
    const std::lock_guard lock(pending_mutex_);
    pending_.clear();
  }
  acquire_everything();
  for (int pe = 0; pe < segment_->shape().pes; ++pe) completed_up_to(pe, now());
  bump();
}

}  // namespace peal::checking
