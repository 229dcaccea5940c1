// SPDX-License-Identifier: Apache-2.0
//
// What stands behind one device context: its queues, if it has any, and its slot in the tables.
#pragma once

#include <memory>
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
  /// the queues and the slot say. `tables` outlives the context.
  ContextOwner(std::unique_ptr<IbgdaQueues> queues, const DeviceTables& tables, uint32_t slot,
               const ContextFields& fields);

  /// What kernels are given.
  ContextFields fields() const { return fields_; }
  /// Of the queues and the owner itself.
  size_t bytes() const;

  /// What kernels of this context ran into, usage and queues, the earliest first.
  std::vector<Failure> failures() const;

  /// One line for each queue: where it stands. Nothing where there are none.
  std::string describe_queues() const;

 private:
  std::unique_ptr<IbgdaQueues> queues_;
  const DeviceTables& tables_;
  uint32_t slot_;
  ContextFields fields_;
};

}  // namespace peal
