// SPDX-License-Identifier: Apache-2.0
#include "host/check/pending.h"

#include <algorithm>
#include <cstring>

namespace peal::checking {
namespace {

// A kernel that changes the source while it is read here does what is looked for.
#if defined(__SANITIZE_THREAD__)
__attribute__((no_sanitize("thread")))
#endif
uint64_t
sum_of_bytes(const std::byte* from, uint64_t bytes, uint64_t sum) {
  constexpr uint64_t kOdd = 0x9e3779b97f4a7c15;
  uint64_t lanes[4] = {sum, sum ^ 1, sum ^ 2, sum ^ 3};
  uint64_t at = 0;
  for (; at + sizeof(lanes) <= bytes; at += sizeof(lanes)) {
    for (size_t i = 0; i < 4; ++i) {
      uint64_t word;
      __builtin_memcpy(&word, from + at + i * sizeof(word), sizeof(word));
      lanes[i] = (lanes[i] ^ word) * kOdd;
      lanes[i] ^= lanes[i] >> 32;
    }
  }
  for (; at < bytes; ++at) {
    lanes[0] = (lanes[0] ^ static_cast<uint64_t>(from[at])) * kOdd;
    lanes[0] ^= lanes[0] >> 32;
  }
  uint64_t all = 0;
  for (const uint64_t lane : lanes) all = (all ^ lane) * kOdd;
  return all ^ all >> 32;
}

const std::byte* row_of(const ByteRows& rows, uint64_t row) {
  return rows.first + static_cast<int64_t>(row) * rows.pitch;
}

}  // namespace

bool ByteRows::overlap(const std::byte* begin, const std::byte* end) const {
  if (first == nullptr || bytes == 0) return false;
  for (uint64_t row = 0; row < count; ++row) {
    const std::byte* const at = row_of(*this, row);
    if (at < end && begin < at + bytes) return true;
  }
  return false;
}

bool ByteRows::overlap(const ByteRows& other) const {
  if (other.first == nullptr || other.bytes == 0) return false;
  for (uint64_t row = 0; row < other.count; ++row) {
    const std::byte* const at = row_of(other, row);
    if (overlap(at, at + other.bytes)) return true;
  }
  return false;
}

uint64_t sum_of(const ByteRows& rows) {
  uint64_t sum = 0;
  for (uint64_t row = 0; row < rows.count && rows.first != nullptr; ++row) {
    sum = sum_of_bytes(row_of(rows, row), rows.bytes, sum + 1);
  }
  return sum;
}

ByteRows here_of(const CallNote& note) {
  return {static_cast<const std::byte*>(note.here), note.here_bytes, note.rows, note.here_pitch};
}
ByteRows there_of(const CallNote& note) {
  return {static_cast<const std::byte*>(note.there), note.there_bytes, note.rows, note.there_pitch};
}

void PendingList::add(const Pending& started) {
  if (list_.size() == kMax) list_.pop_front();
  list_.push_back(started);
}

std::optional<Pending> PendingList::started(const ContextState* context, const CallNote& note,
                                            bool ticket) {
  const ByteRows here = here_of(note);
  const ByteRows there = there_of(note);
  const auto alike = [&](const Pending& p) {
    return p.context == context && p.pe == note.pe && p.here == here && p.there == there;
  };
  const auto is_open = [&](const Pending& p) { return p.open && alike(p); };
  const auto mine = std::find_if(list_.rbegin(), list_.rend(), is_open);
  if (mine == list_.rend()) return {};
  mine->open = false;
  mine->queue = note.queue;
  mine->index = note.index;
  const Pending now = *mine;
  list_.erase(std::next(mine).base());
  if (!ticket) return {};
  const auto is_earlier = [&](const Pending& p) {
    return !p.open && alike(p) && p.queue == now.queue && p.gets == now.gets;
  };
  std::optional<Pending> changed;
  const auto earlier = std::find_if(list_.begin(), list_.end(), is_earlier);
  if (earlier != list_.end()) {
    if (!now.gets && earlier->sum != now.sum) changed = *earlier;
    list_.erase(earlier);
  }
  add(now);
  return changed;
}

std::vector<Pending> PendingList::complete(const Which& which) {
  std::vector<Pending> done;
  const auto ends = [&](const Pending& p) {
    if (p.open || !which(p)) return false;
    done.push_back(p);
    return true;
  };
  std::erase_if(list_, ends);
  return done;
}

std::vector<Pending> PendingList::matching(const Which& which) const {
  std::vector<Pending> found;
  for (const Pending& p : list_) {
    if (!p.open && which(p)) found.push_back(p);
  }
  return found;
}

}  // namespace peal::checking
