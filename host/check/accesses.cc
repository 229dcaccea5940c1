// SPDX-License-Identifier: Apache-2.0
//
// What calls do to memory: the shadow of each heap, and operations under way.
#include <bit>

#include "host/check/order_checker.h"

namespace peal::checking {
namespace {

bool is_one_element(const CallNote& note) {
  const uint64_t bytes = note.there_bytes;
  return bytes <= sizeof(uint64_t) && std::has_single_bit(bytes) &&
         reinterpret_cast<uint64_t>(note.there) % bytes == 0;
}

bool writes_there(Call call) {
  return call != Call::kGet && call != Call::kG && !is_of_words(call);
}

}  // namespace

int OrderChecker::index_of(int pe) const {
  for (size_t i = 0; i < config_.pes.size(); ++i) {
    if (config_.pes[i] == pe) return static_cast<int>(i);
  }
  return -1;
}

OrderChecker::SymmetricOffset OrderChecker::place_of_address(const void* address) const {
  const auto at = reinterpret_cast<uintptr_t>(address);
  const auto lies_in = [&](const std::byte* heap) {
    return heap != nullptr && at - reinterpret_cast<uintptr_t>(heap) < segment_->shape().heap_bytes;
  };
  if (lies_in(config_.heap)) return {me_, at - reinterpret_cast<uintptr_t>(config_.heap)};
  for (size_t i = 0; i < config_.mapped.size(); ++i) {
    if (!lies_in(config_.mapped[i])) continue;
    return {static_cast<int>(i), at - reinterpret_cast<uintptr_t>(config_.mapped[i])};
  }
  return {};
}

// False for a row that is not whole in the heap: windows and memory of this PE alone.
bool OrderChecker::in_heap(const ByteRows& rows, uint64_t row, uint64_t* offset) const {
  const auto at = reinterpret_cast<uintptr_t>(rows.first) +
                  static_cast<uint64_t>(static_cast<int64_t>(row) * rows.pitch);
  *offset = at - reinterpret_cast<uintptr_t>(config_.heap);
  const uint64_t heap = segment_->shape().heap_bytes;
  return *offset < heap && rows.bytes <= heap - *offset;
}

Known OrderChecker::known_of(int owner) const {
  Known known;
  known.owner = owner;
  for (int pe = 0; pe < segment_->shape().pes; ++pe) {
    const auto i = static_cast<size_t>(pe);
    known.done[i] = mine().at(pe, pe).load(std::memory_order_acquire);
    known.transferred[i] = mine().at(owner, pe).load(std::memory_order_acquire);
  }
  return known;
}

void OrderChecker::touch(const Touch& touch) {
  if (touch.owner < 0 || touch.rows.first == nullptr || touch.rows.bytes == 0) return;
  const Known known = known_of(touch.owner);
  const ShadowSlot slot = ShadowSlot::of(touch.flags, me_, touch.site, touch.stamp);
  Conflicts found;
  for (uint64_t row = 0; row < touch.rows.count; ++row) {
    uint64_t begin;
    if (!in_heap(touch.rows, row, &begin)) continue;
    access(segment_->shadow(touch.owner), begin, begin + touch.rows.bytes, slot, known, found);
  }
  for (int i = 0; i < found.count; ++i) tell_conflict(touch, found.list[static_cast<size_t>(i)]);
}

void OrderChecker::data_of(const CallNote& note, uint16_t site) {
  const uint32_t stamp = now();
  const int owner = index_of(note.pe);
  const ByteRows here = here_of(note);
  const ByteRows there = there_of(note);
  const bool one = is_one_element(note);
  if (is_put(note.call)) {
    touch({owner, there, ShadowSlot::kWrite | (one ? ShadowSlot::kSmall : 0), site, stamp});
    touch({me_, here, 0, site, stamp});
    if (note.word != nullptr) {
      const ByteRows word{static_cast<const std::byte*>(note.word), sizeof(uint64_t), 1, 0};
      touch({owner, word, ShadowSlot::kWrite | ShadowSlot::kWord, site, stamp});
    }
  } else if (note.call == Call::kGet) {
    touch({owner, there, one ? ShadowSlot::kWord : 0, site, stamp});
    touch({me_, here, ShadowSlot::kWrite, site, stamp});
  } else if (note.call == Call::kG) {
    touch({owner, there, ShadowSlot::kWord, site, stamp});
  } else if (writes_word(note.call)) {
    touch({owner, there, ShadowSlot::kWrite | ShadowSlot::kWord, site, stamp});
    touch({me_, here, ShadowSlot::kWrite, site, stamp});
  } else if (is_collective(note.call)) {
    touch({me_, here, 0, site, stamp});
    touch({me_, there, ShadowSlot::kWrite, site, stamp});
  }
}

void OrderChecker::check_pending(const CallNote& note, uint16_t site) {
  if (!any_pending_.load(std::memory_order_acquire) || is_of_words(note.call)) return;
  const bool writes_here = !is_put(note.call) && !is_collective(note.call);
  check_pending(here_of(note), writes_here, site);
  const bool at_home = note.pe == config_.pe || is_collective(note.call);
  if (at_home) check_pending(there_of(note), writes_there(note.call), site);
  if (note.pe == config_.pe && note.word != nullptr) {
    check_pending({static_cast<const std::byte*>(note.word), sizeof(uint64_t), 1, 0}, true, site);
  }
}

void OrderChecker::check_pending(const ByteRows& at, bool write, uint16_t site) {
  if (!any_pending_.load(std::memory_order_acquire) || at.first == nullptr) return;
  std::vector<Pending> used;
  {
    const std::lock_guard lock(pending_mutex_);
    for (const Pending& p : pending_.all()) {
      if ((p.gets || write) && p.here.overlap(at)) used.push_back(p);
    }
  }
  for (const Pending& p : used) tell_pending(p, site, write ? "written" : "read");
}

void OrderChecker::begin_pending(const ContextState* context, const CallNote& note, uint16_t site) {
  const ByteRows here = here_of(note);
  if (here.first == nullptr || here.bytes == 0 || here.count == 0) return;
  const bool gets = !is_put(note.call);
  const Pending started{.context = context,
                        .pe = note.pe,
                        .gets = gets,
                        .here = here,
                        .there = there_of(note),
                        .sum = gets ? 0 : sum_of(here),
                        .stamp = now(),
                        .site = site,
                        .open = true,
                        .queue = nullptr,
                        .index = 0};
  const std::lock_guard lock(pending_mutex_);
  pending_.begin(started);
  any_pending_.store(true, std::memory_order_release);
}

void OrderChecker::expect_unchanged(const PendingList::Which& which, uint16_t site) {
  if (!any_pending_.load(std::memory_order_acquire)) return;
  std::vector<Pending> found;
  {
    const std::lock_guard lock(pending_mutex_);
    found = pending_.matching(which);
  }
  for (const Pending& p : found) {
    if (p.changed()) tell_pending(p, site, "changed");
  }
}

void OrderChecker::complete(const PendingList::Which& which) {
  if (!any_pending_.load(std::memory_order_acquire)) return;
  std::vector<Pending> done;
  {
    const std::lock_guard lock(pending_mutex_);
    done = pending_.complete(which);
    any_pending_.store(!pending_.empty(), std::memory_order_release);
  }
  for (const Pending& p : done) {
    if (!p.gets) continue;
    // It was under way until now: whoever touched the destination meanwhile was too early.
    const int owner = index_of(p.pe);
    touch({me_, p.here, ShadowSlot::kWrite, p.site, now()});
    acquire_words(owner, p.there.first, p.there.bytes, false);
  }
}

}  // namespace peal::checking
