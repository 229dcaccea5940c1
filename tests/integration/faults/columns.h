// SPDX-License-Identifier: Apache-2.0
//
// The software NIC's faults as columns of the fault matrix, and what each waiter may get.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <string_view>
#include <vector>

#include "tests/integration/faults/operations.h"

namespace peal::fault_test {

struct Column {
  const char* code;
  const char* plan;
  Status ends;             // what a wait for the work answers
  uint8_t syndrome = 0;    // of the first cause
  bool acted = false;      // the peer has executed it although it failed
  bool whole_nic = false;  // not the one queue alone
  int nic = 0;             // of which PE
};

inline std::vector<Column> columns_of_any_nic() {
  constexpr Status kOk = Status::kOk;
  constexpr Status kTimeout = Status::kTimeout;
  constexpr Status kError = Status::kQueueError;
  return {{"non", "", kOk},
          {"dly", "doorbell=* fault=delay ms=3", kOk},
          {"dup", "doorbell=* fault=duplicate", kOk},
          {"reo", "doorbell=* fault=reorder ms=3", kOk},
          {"sta", "wqe=1 fault=stall ms=3", kOk},
          {"ack", "wqe=1 fault=lose_ack times=2", kOk},
          {"req", "wqe=1 fault=lose_request times=2", kOk},
          {"rnr", "wqe=1 fault=rnr times=2", kOk},
          {"lat", "wqe=1 fault=late_cqe ms=3", kOk},
          {"dow", "wqe=1 fault=port_down ms=5", kOk},
          {"drp", "doorbell=* fault=drop", kTimeout},
          {"STA", "wqe=1 fault=stall", kTimeout},
          {"RNR", "wqe=1 fault=rnr", kTimeout},
          {"STP", "wqe=1 fault=nic_stop", kTimeout, 0, false, true},
          {"ACK", "wqe=1 fault=lose_ack", kError, 0x15, true},
          {"REQ", "wqe=1 fault=lose_request", kError, 0x15},
          {"DOW", "wqe=1 fault=port_down", kError, 0x15, false, true},
          {"FLU", "wqe=1 fault=flush_storm", kError, 0x05},
          {"x01", "wqe=1 fault=syndrome:0x01", kError, 0x01},
          {"x02", "wqe=1 fault=syndrome:0x02", kError, 0x02},
          {"x04", "wqe=1 fault=syndrome:0x04", kError, 0x04},
          {"x05", "wqe=1 fault=syndrome:0x05", kError, 0x05},
          {"x06", "wqe=1 fault=syndrome:0x06", kError, 0x06},
          {"x10", "wqe=1 fault=syndrome:0x10", kError, 0x10},
          {"x11", "wqe=1 fault=syndrome:0x11", kError, 0x11},
          {"x12", "wqe=1 fault=syndrome:0x12", kError, 0x12},
          {"x13", "wqe=1 fault=syndrome:0x13", kError, 0x13},
          {"x14", "wqe=1 fault=syndrome:0x14", kError, 0x14},
          {"x15", "wqe=1 fault=syndrome:0x15", kError, 0x15},
          {"x16", "wqe=1 fault=syndrome:0x16", kError, 0x16},
          {"x22", "wqe=1 fault=syndrome:0x22", kError, 0x22}};
}

/// Of each kind one or two, for where all of them take minutes.
inline std::vector<Column> few_columns() {
  std::vector<Column> few = columns_of_any_nic();
  std::erase_if(few, [](const Column& column) {
    constexpr std::string_view kFew[] = {"non", "ack", "lat", "STA", "ACK", "FLU", "x13"};
    return std::ranges::find(kFew, column.code) == std::end(kFew);
  });
  return few;
}

/// Faults of the other PE's NIC, which only a NIC of its own can have.
inline std::vector<Column> columns_of_the_peers_nic() {
  return {{"Pdw", "after_ms=0 fault=port_down ms=5", Status::kOk, 0, false, true, 1},
          {"PDW", "after_ms=0 fault=port_down", Status::kQueueError, 0x15, false, true, 1},
          {"PST", "after_ms=0 fault=nic_stop", Status::kTimeout, 0, false, true, 1}};
}

/// A set of statuses that a waiter may get.
class Allowed {
 public:
  Allowed(std::initializer_list<Status> all) {
    for (const Status status : all) bits_ |= bit(status);
  }
  Allowed& also(Status status, bool holds = true) {
    if (holds) bits_ |= bit(status);
    return *this;
  }
  bool has(Status status) const { return (bits_ & bit(status)) != 0; }

 private:
  static uint32_t bit(Status status) { return 1u << static_cast<uint32_t>(status); }
  uint32_t bits_ = 0;
};

/// What PE 0's lanes may come back with.
inline Allowed allowed_to_act(const Column& column, const Row& row) {
  const Status ends = column.ends;
  if (ends == Status::kOk) return {ends};
  // Waits for the other's flag, which may come before its own fails.
  if (row.op == Op::kSyncAll) return {Status::kOk, ends};
  // A fence drains where WRITEs may overtake each other, also with one queue.
  if (row.waits() || row.op == Op::kFence) return {ends};
  return Allowed{Status::kOk}.also(ends, ends == Status::kQueueError);  // posted before or after
}

/// What PE 1's lanes may, where they have a part: they wait for what PE 0 sends.
inline Allowed allowed_to_wait(const Column& column, const Row& row) {
  if (column.ends == Status::kOk) return {Status::kOk};
  if (column.acted && row.op == Op::kSyncAll) return {Status::kOk};
  return Allowed{Status::kTimeout}
      .also(Status::kOk, column.acted && row.op == Op::kWaitUntil)
      .also(column.ends, row.meets());  // its own flag finds a failed queue pair
}

}  // namespace peal::fault_test
