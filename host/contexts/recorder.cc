// SPDX-License-Identifier: Apache-2.0
#include "host/contexts/recorder.h"

#include <algorithm>
#include <utility>

namespace peal {
namespace {

constexpr size_t kRing = (sizeof(RecordTable) + 127) / 128 * 128;
constexpr size_t kWords = sizeof(CallRecord) / sizeof(uint64_t);

size_t bytes_of(uint32_t entries) { return kRing + entries * sizeof(CallRecord); }

// Kernels change a record's turn before and after they change the rest: one with the same turn in
// the first copy and in the third is whole in the second, in whatever order copies read.
std::vector<CallRecord> whole_records(const Backing& memory, uint32_t entries) {
  std::vector<CallRecord> copies[3];
  for (std::vector<CallRecord>& copy : copies) {
    copy.resize(entries);
    memory.load_words(reinterpret_cast<uint64_t*>(copy.data()),
                      reinterpret_cast<const uint64_t*>(memory.address() + kRing),
                      entries * kWords);
  }
  std::vector<CallRecord> whole;
  for (uint32_t i = 0; i < entries; ++i) {
    const CallRecord& record = copies[1][i];
    const bool shown = CallRecord::phase(record.turn) >= CallPhase::kBegun;
    if (shown && copies[0][i].turn == record.turn && record.turn == copies[2][i].turn)
      whole.push_back(record);
  }
  std::ranges::sort(whole, {}, &CallRecord::turn);
  return whole;
}

}  // namespace

Recorder::Recorder(uint32_t entries, MakeMemory make_memory)
    : entries_(entries), make_memory_(std::move(make_memory)) {}

RecordTable* Recorder::begin(uint32_t slot) {
  if (!on()) return nullptr;
  const std::lock_guard lock(mutex_);
  std::optional<Backing>& memory = rings_[slot];
  if (memory) {
    memory->zero(0, bytes_of(entries_));
  } else {
    memory.emplace(make_memory_(bytes_of(entries_)));
  }
  auto* const table = reinterpret_cast<RecordTable*>(memory->address());
  RecordTable empty{};
  empty.ring = reinterpret_cast<CallRecord*>(memory->address() + kRing);
  empty.mask = entries_ - 1;
  memory->copy_in(table, &empty, sizeof(empty));
  return table;
}

std::optional<Recorded> Recorder::read(uint32_t slot) const {
  const std::lock_guard lock(mutex_);
  const std::optional<Backing>& memory = rings_[slot];
  if (!memory) return std::nullopt;
  Recorded found{.slot = slot, .calls = whole_records(*memory, entries_)};
  RecordTable table{};
  memory->load_words(reinterpret_cast<uint64_t*>(&table),
                     reinterpret_cast<const uint64_t*>(memory->address()),
                     sizeof(table) / sizeof(uint64_t));
  found.overwritten = table.next - std::min<uint64_t>(table.next, found.calls.size());
  found.ran = table.ran != 0;
  found.looks = table.looks;
  std::ranges::copy(table.count, found.count.begin());
  found.posts = table.posts;
  return found;
}

std::vector<Recorded> Recorder::read_all() const {
  std::vector<Recorded> all;
  for (uint32_t slot = 0; slot < kMaxContexts; ++slot) {
    if (auto one = read(slot)) all.push_back(std::move(*one));
  }
  return all;
}

size_t Recorder::bytes() const {
  const std::lock_guard lock(mutex_);
  const auto made =
      std::ranges::count_if(rings_, [](const auto& ring) { return ring.has_value(); });
  return static_cast<size_t>(made) * bytes_of(entries_);
}

}  // namespace peal
