// SPDX-License-Identifier: Apache-2.0
//
// Where each table lies.
#include "host/contexts/device_tables.h"

#include <algorithm>
#include <utility>

namespace peal {
namespace {

constexpr size_t kReports = kMaxContexts * sizeof(ContextState);
constexpr size_t kWaits = kReports + kMaxContexts * sizeof(kernels::CallReport);
constexpr size_t kFaults = kWaits + kMaxContexts * sizeof(WaitTable);
static_assert(kWaits % alignof(WaitTable) == 0 && kFaults % alignof(LinkFaults) == 0);

// Where the CheckTables begin, or would.
size_t begin_of_checks(const DeviceTables::Extent& extent) {
  const auto n = static_cast<size_t>(extent.n_pes);
  const size_t end = kFaults + sizeof(LinkFaults) + n * (sizeof(LinkCount) + sizeof(int32_t));
  return (end + alignof(CheckTable) - 1) / alignof(CheckTable) * alignof(CheckTable);
}

}  // namespace

size_t DeviceTables::bytes(const Extent& extent) {
  return begin_of_checks(extent) + (extent.checked ? kMaxContexts * sizeof(CheckTable) : 0);
}

DeviceTables::DeviceTables(Backing memory, const Extent& extent, PublishedWindows& windows)
    : memory_(std::move(memory)),
      windows_(windows),
      n_pes_(static_cast<size_t>(extent.n_pes)),
      checks_at_(begin_of_checks(extent)),
      own_memory_(extent.own_memory) {}

// Where there are faults nothing is near, so that every operation looks the plan up.
ContextFields DeviceTables::fields() const {
  const PublishedWindows::Heap& heap = windows_.heap();
  ContextFields fields{};
  fields.version = kContextVersion;
  fields.bytes = sizeof(ContextFields);
  fields.windows = windows_.table();
  fields.heap = heap.window;
  fields.near_first = has_faults_ ? INT32_MAX : heap.near_first;
  std::ranges::copy(heap.near, fields.near);
  return fields;
}

ContextState* DeviceTables::state(uint32_t slot) const {
  return reinterpret_cast<ContextState*>(memory_.address()) + slot;
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

LinkFaults* DeviceTables::faults() const {
  return reinterpret_cast<LinkFaults*>(memory_.address() + kFaults);
}

int32_t* DeviceTables::survivors() const {
  return reinterpret_cast<int32_t*>(reinterpret_cast<LinkCount*>(faults() + 1) + n_pes_);
}

void DeviceTables::set_faults(const LinkFaults& plan) {
  auto* const links = reinterpret_cast<LinkCount*>(faults() + 1);
  const std::vector<LinkCount> nothing(n_pes_);
  LinkFaults shown = plan;
  shown.links = links;
  memory_.copy_in(links, nothing.data(), n_pes_ * sizeof(LinkCount));
  memory_.copy_in(faults(), &shown, sizeof(shown));
  has_faults_ = true;
}

bool DeviceTables::killed() const { return memory_.load_word(&faults()->killed) != 0; }

void DeviceTables::leave_out(std::span<const int> masked, std::span<const int> live) {
  windows_.leave_out(masked);
  memory_.copy_in(survivors(), live.data(), live.size_bytes());
}

void DeviceTables::keep_survivors(uint32_t slot, uint32_t rank, uint32_t count) const {
  const Survivors left{survivors(), count, rank};
  memory_.copy_in(&state(slot)->survivors, &left, sizeof(left));
}

void DeviceTables::reset_state(uint32_t slot, uint32_t* alarm) {
  memory_.zero(slot * sizeof(ContextState), sizeof(ContextState));
  memory_.zero(kReports + slot * sizeof(kernels::CallReport), sizeof(kernels::CallReport));
  memory_.copy_in(&state(slot)->alarm, &alarm, sizeof(alarm));
  forget_waits(slot);
  WaitTable* const waits = wait_place(slot);
  memory_.copy_in(&waits->alarm, &alarm, sizeof(alarm));
  memory_.copy_in(&state(slot)->waits, &waits, sizeof(waits));
  LinkFaults* const plan = has_faults_ ? faults() : nullptr;
  memory_.copy_in(&state(slot)->faults, &plan, sizeof(plan));
  const uint32_t own_memory = own_memory_ ? 1 : 0;
  memory_.copy_in(&state(slot)->own_memory, &own_memory, sizeof(own_memory));
  reset_checks(slot);
}

CheckTable* DeviceTables::check_place(uint32_t slot) const {
  return reinterpret_cast<CheckTable*>(memory_.address() + checks_at_) + slot;
}

void DeviceTables::reset_checks(uint32_t slot) {
  if (!checks_) return;
  CheckTable* const place = check_place(slot);
  CheckTable table{};
  table.extents = checks_->extents;
  table.hooks = checks_->hooks;
  table.ran = memory_.load_word(&place->ran);
  memory_.copy_in(place, &table, sizeof(table));
  memory_.copy_in(&state(slot)->checks, &place, sizeof(place));
}

bool DeviceTables::checked(uint32_t slot) const {
  return checks_ && memory_.load_word(&check_place(slot)->ran) != 0;
}

void DeviceTables::forget_waits(uint32_t slot) {
  memory_.zero(kWaits + slot * sizeof(WaitTable) + offsetof(WaitTable, dropped),
               sizeof(WaitTable) - offsetof(WaitTable, dropped));
}

void DeviceTables::keep_records(uint32_t slot, RecordTable* records) const {
  memory_.copy_in(&state(slot)->records, &records, sizeof(records));
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
  memory_.zero(slot * sizeof(ContextState), sizeof(UsageError));
  memory_.zero(kReports + slot * sizeof(kernels::CallReport), sizeof(kernels::CallReport));
  forget_waits(slot);
  reset_checks(slot);
}

void DeviceTables::look_everywhere(uint32_t slot, bool everywhere) const {
  memory_.store_word(&state(slot)->look_everywhere, everywhere ? 1 : 0);
}

void DeviceTables::end(uint32_t slot, Status why) const {
  memory_.store_word(&state(slot)->ended, static_cast<uint32_t>(why));
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
