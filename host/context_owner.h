// SPDX-License-Identifier: Apache-2.0
//
// What stands behind one device context: its queues, if it has any, and its slot in the tables.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "device/context.h"
#include "host/device_tables.h"
#include "host/transport/ibgda.h"

namespace peal {

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

  /// The first failure of this context in the order usage, queue; nothing when all is well.
  struct FirstError {
    Status status;
    int pe;
    uint64_t wqe_index;
    uint8_t opcode;
    uint8_t syndrome;
    uint8_t vendor_syndrome;
    std::string text;
  };
  std::optional<FirstError> first_error() const;

  /// One line for each queue: where it stands. Nothing where there are none.
  std::string describe_queues() const;

 private:
  std::unique_ptr<IbgdaQueues> queues_;
  const DeviceTables& tables_;
  uint32_t slot_;
  ContextFields fields_;
};

}  // namespace peal
