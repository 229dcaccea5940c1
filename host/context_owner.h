// SPDX-License-Identifier: Apache-2.0
//
// What stands behind one device context: its queues, if it has any, and its slot in the tables.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "device/context.h"
#include "host/device_tables.h"
#include "host/failure.h"
#include "host/transport/ibgda.h"

namespace peal {

/// What the host and the kernels of one context tell each other, in memory that both reach at once.
struct ContextWords {
  uint32_t stop;   // a Status; ends every wait
  uint32_t alarm;  // 1: an error record has been written
};

/// Owns one context.
class ContextOwner {
 public:
  /// `queues` may be null: then every peer is reached directly. `fields` is complete but for what
  /// the queues and the slot say. `tables` and
  /// `words`, the slot's, outlive the context.
  ContextOwner(std::unique_ptr<IbgdaQueues> queues, DeviceTables& tables, ContextWords& words,
               uint32_t slot, const ContextFields& fields);

  /// What kernels are given.
  ContextFields fields() const { return fields_; }
  /// Of the queues and the owner itself.
  size_t bytes() const;

  /// What kernels of this context ran into, usage and queues, the earliest first.
  std::vector<Failure> failures() const;

  /// By queue, 1 where it needs a reset. One for each queue that this PE has.
  std::vector<uint8_t> broken_queues() const;
  /// The two halves of recovery, between which all PEs meet. `chosen` is by queue. Both are for a
  /// time without kernels.
  void reset_queues(std::span<const uint8_t> chosen);
  void start_again(std::span<const uint8_t> chosen, uint32_t generation, uint64_t sync_epoch);
  uint64_t sync_epoch() const { return tables_.sync_epoch(slot_); }

  /// One line for each queue: where it stands. Nothing where there are none.
  std::string describe_queues() const;

 private:
  std::unique_ptr<IbgdaQueues> queues_;
  DeviceTables& tables_;
  ContextWords& words_;
  uint32_t slot_;
  ContextFields fields_;
};

}  // namespace peal
