// SPDX-License-Identifier: Apache-2.0
//
// Where each table lies, and the order of stores that lets kernels read a window while it is added.
#include "host/contexts/device_tables.h"

#include <algorithm>
#include <utility>

#include "host/base/error.h"

namespace peal {
namespace {

constexpr size_t kStates = (sizeof(WindowTable) + 127) / 128 * 128;
constexpr size_t kReports = kStates + kMaxContexts * sizeof(ContextState);
constexpr size_t kWaits = kReports + kMaxContexts * sizeof(kernels::CallReport);
constexpr size_t kKeys = kWaits + kMaxContexts * sizeof(WaitTable);
static_assert(kStates % alignof(ContextState) == 0 && kWaits % alignof(WaitTable) == 0 &&
              kKeys % alignof(std::byte*) == 0);

// One window's, rounded up so that the addresses behind all of them are aligned.
size_t key_bytes(size_t keys) { return (keys + 1) / 2 * 2 * sizeof(Be32); }

}  // namespace

size_t DeviceTables::bytes(const Extent& extent) {
  const auto n = static_cast<size_t>(extent.n_pes);
  return kKeys + kMaxWindows * (2 * key_bytes(extent.rails * n) + n * sizeof(std::byte*)) +
         n * sizeof(int32_t);
}

DeviceTables::DeviceTables(Backing memory, const Extent& extent)
    : memory_(std::move(memory)), n_pes_(static_cast<size_t>(extent.n_pes)), rails_(extent.rails) {
  fields_.version = kContextVersion;
  fields_.bytes = sizeof(ContextFields);
  fields_.windows = windows();
}

const WindowTable* DeviceTables::windows() const {
  return reinterpret_cast<const WindowTable*>(memory_.address());
}

ContextState* DeviceTables::state(uint32_t slot) const {
  return reinterpret_cast<ContextState*>(memory_.address() + kStates) + slot;
}

kernels::CallReport* DeviceTables::report_place(uint32_t slot) const {
  return reinterpret_cast<kernels::CallReport*>(memory_.address() + kReports) + slot;
}

kernels::CallReport DeviceTables::report(uint32_t slot) const {
  const kernels::CallReport* const place = report_place(slot);
  kernels::CallReport found{};
  // `status` is written last: whoever sees it sees the rest.
  if (memory_.load_word(&place->status) != 0) memory_.copy_out(&found, place, sizeof(found));
  return found;
}

WaitTable* DeviceTables::wait_place(uint32_t slot) const {
  return reinterpret_cast<WaitTable*>(memory_.address() + kWaits) + slot;
}

// Kernels write a record's body before its state: one whose state is the same in two copies is
// whole in the second, for each copy is made from its end to its beginning.
DeviceTables::Waits DeviceTables::waits(uint32_t slot) const {
  std::vector<WaitTable> copies(2);
  for (WaitTable& copy : copies) {
    memory_.load_words(reinterpret_cast<uint64_t*>(&copy),
                       reinterpret_cast<const uint64_t*>(wait_place(slot)),
                       sizeof(copy) / sizeof(uint64_t));
  }
  Waits found{{}, copies[1].dropped != 0};
  for (uint32_t i = 0; i < kWaitRecords; ++i) {
    const WaitRecord& record = copies[1].record[i];
    const bool shown = WaitRecord::phase(record.state) >= WaitPhase::kWaiting;
    if (shown && record.state == copies[0].record[i].state) found.records.push_back(record);
  }
  return found;
}

Be32* DeviceTables::rkeys(uint32_t window) const {
  return reinterpret_cast<Be32*>(memory_.address() + kKeys + window * key_bytes(rails_ * n_pes_));
}

std::byte** DeviceTables::direct(uint32_t window) const {
  std::byte* const begin = memory_.address() + kKeys + 2 * kMaxWindows * key_bytes(rails_ * n_pes_);
  return reinterpret_cast<std::byte**>(begin) + window * n_pes_;
}

int32_t* DeviceTables::survivors() const { return reinterpret_cast<int32_t*>(direct(kMaxWindows)); }

void DeviceTables::check_room() const {
  if (count_ < kMaxWindows) return;
  fail(ErrorCode::kInvalidArgument,
       "register: {} windows are in use already, which is all there are", kMaxWindows);
}

void DeviceTables::fill(Window window, const Reached& reached) {
  check_room();
  const auto fill = [&](auto* entries, const auto& values) {
    memory_.copy_in(entries, values.data(), values.size_bytes());
    return values.empty() ? nullptr : entries;
  };
  window.rkeys = fill(rkeys(count_), reached.rkeys);
  window.word_rkeys = fill(word_rkeys(count_), reached.word_rkeys);
  window.direct = fill(direct(count_), reached.direct);
  auto* const table = reinterpret_cast<WindowTable*>(memory_.address());
  memory_.copy_in(&table->window[count_], &window, sizeof(window));
  if (count_ == 0) keep_heap(window, reached.direct);
}

// Kernels look at windows below the count only.
void DeviceTables::publish() {
  auto* const table = reinterpret_cast<WindowTable*>(memory_.address());
  memory_.store_word(&table->count, count_ + 1);
  ++count_;
}

DeviceTables::HeapKeys DeviceTables::heap_keys() const {
  const size_t count = rails_ * n_pes_;
  HeapKeys keys{std::vector<Be32>(count), std::vector<Be32>(count)};
  memory_.copy_out(keys.payload.data(), rkeys(0), count * sizeof(Be32));
  memory_.copy_out(keys.words.data(), word_rkeys(0), count * sizeof(Be32));
  return keys;
}

// The mapped PEs are neighbours where PEs are numbered machine by machine; others are looked up.
void DeviceTables::keep_heap(const Window& heap, std::span<std::byte* const> direct) {
  fields_.heap = heap;
  const auto first =
      std::ranges::find_if(direct, [](const std::byte* at) { return at != nullptr; });
  const auto left = std::min<ptrdiff_t>(direct.end() - first, kNearPes);
  fields_.near_first = left == 0 ? INT32_MAX : static_cast<int32_t>(first - direct.begin());
  std::copy_n(first, left, fields_.near);
}

void DeviceTables::leave_out(std::span<const int> masked, std::span<const int> live) {
  std::byte* const nowhere = nullptr;
  for (const int pe : masked) {
    for (uint32_t window = 0; window < count_; ++window) {
      memory_.copy_in(direct(window) + pe, &nowhere, sizeof(nowhere));
    }
    const int64_t near = int64_t{pe} - fields_.near_first;
    if (near >= 0 && near < kNearPes) fields_.near[near] = nullptr;
  }
  memory_.copy_in(survivors(), live.data(), live.size_bytes());
}

void DeviceTables::keep_survivors(uint32_t slot, uint32_t rank, uint32_t count) const {
  const Survivors left{survivors(), count, rank};
  memory_.copy_in(&state(slot)->survivors, &left, sizeof(left));
}

void DeviceTables::reset_state(uint32_t slot, uint32_t* alarm) {
  memory_.zero(kStates + slot * sizeof(ContextState), sizeof(ContextState));
  memory_.zero(kReports + slot * sizeof(kernels::CallReport), sizeof(kernels::CallReport));
  memory_.copy_in(&state(slot)->alarm, &alarm, sizeof(alarm));
  forget_waits(slot);
  WaitTable* const waits = wait_place(slot);
  memory_.copy_in(&waits->alarm, &alarm, sizeof(alarm));
  memory_.copy_in(&state(slot)->waits, &waits, sizeof(waits));
}

void DeviceTables::forget_waits(uint32_t slot) {
  memory_.zero(kWaits + slot * sizeof(WaitTable) + offsetof(WaitTable, dropped),
               sizeof(WaitTable) - offsetof(WaitTable, dropped));
}

void DeviceTables::keep_fields(uint32_t slot, const ContextFields& fields) const {
  memory_.copy_in(&state(slot)->fields, &fields, sizeof(fields));
}

UsageError DeviceTables::usage(uint32_t slot) const {
  const UsageError* const error = &state(slot)->usage;
  UsageError copy{};
  // The kernel writes the status last: what is copied after it was seen is the whole record.
  // The two words in front of it kernels may still exchange: they are not copied.
  copy.status = memory_.load_word(&error->status);
  if (copy.status != 0) {
    memory_.copy_out(&copy.pe, &error->pe, sizeof(copy) - offsetof(UsageError, pe));
  }
  return copy;
}

void DeviceTables::forget_usage(uint32_t slot) {
  static_assert(offsetof(ContextState, usage) == 0);
  memory_.zero(kStates + slot * sizeof(ContextState), sizeof(UsageError));
  memory_.zero(kReports + slot * sizeof(kernels::CallReport), sizeof(kernels::CallReport));
  forget_waits(slot);
}

void DeviceTables::look_everywhere(uint32_t slot, bool everywhere) const {
  memory_.store_word(&state(slot)->look_everywhere, everywhere ? 1 : 0);
}

uint64_t DeviceTables::sync_epoch(uint32_t slot) const {
  uint64_t epoch = 0;
  memory_.load_words(&epoch, &state(slot)->sync_epoch, 1);
  return epoch;
}

void DeviceTables::set_sync_epoch(uint32_t slot, uint64_t epoch) {
  memory_.copy_in(&state(slot)->sync_epoch, &epoch, sizeof(epoch));
}

}  // namespace peal
