// SPDX-License-Identifier: Apache-2.0
//
// What stands behind one device context: its queues, its shared state, its barrier flags.
#pragma once

#include <optional>
#include <string>

#include "device/context.h"
#include "host/transport/ibgda.h"

namespace peal {

/// The parts of a runtime that every context points at. They outlive the context.
struct ContextSurroundings {
  const WindowTable* windows;
  const uint32_t* stop;
  uint64_t* sync_flags;  // symmetric, sync_rounds(n_pes) words, zero
  int pe;
  int n_pes;
  uint64_t timeout_ns;
};

/// Rounds of the dissemination barrier: ceil(log2(n_pes)).
uint32_t sync_rounds(int n_pes);

/// Owns one context. Its address must not change: kernels hold pointers into it.
class ContextOwner {
 public:
  ContextOwner(const nic::Device& device, const nic::ProtectionDomain& domain, const nic::Uar& uar,
               Bootstrap& bootstrap, const QueueOptions& queues,
               const ContextSurroundings& surroundings);
  ContextOwner(const ContextOwner&) = delete;
  ContextOwner& operator=(const ContextOwner&) = delete;

  /// What kernels are given.
  ContextFields fields() const { return fields_; }
  const IbgdaQueues& queues() const { return queues_; }

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

 private:
  IbgdaQueues queues_;
  ContextState state_{};
  ContextFields fields_;
};

}  // namespace peal
