// SPDX-License-Identifier: Apache-2.0
//
// Checked mode of a PE (PEAL_CHECK=on): what its kernels look calls up in, the order of accesses
// among the PEs of its host, and who is told.
//
//   kernels     CallHooks, plain accesses    -> mistakes of a call, order
//   Runtime     meeting() around what is collective, freed(), recovered()
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "host/check/order_checker.h"
#include "host/contexts/context_owner.h"
#include "host/contexts/device_tables.h"
#include "host/contexts/usage_text.h"
#include "host/memory/symmetric_heap.h"
#include "host/runtime/job.h"
#include "simt/lanes/plain_access.h"

namespace peal {

class CheckMode {
 public:
  /// Collective. For the contexts that are made from now on; all that is given outlives this.
  /// `heap` has extents. `mapped` by PE: where its heap is mapped here, or null; empty where none
  /// is.
  CheckMode(JobMembership& job, SymmetricHeap& heap, DeviceTables& tables, ContextTable& contexts,
            std::vector<std::byte*> mapped);
  ~CheckMode();
  CheckMode(const CheckMode&) = delete;
  CheckMode& operator=(const CheckMode&) = delete;

  /// While a collective call of the host lasts: what was before it is ordered before what follows.
  class Meeting {
   public:
    explicit Meeting(CheckMode* mode) : mode_(mode) {
      if (mode_ != nullptr && mode_->order_) mode_->order_->everybody_meets();
    }
    ~Meeting() {
      if (mode_ != nullptr && mode_->order_) mode_->order_->everybody_met();
    }
    Meeting(const Meeting&) = delete;
    Meeting& operator=(const Meeting&) = delete;

   private:
    CheckMode* mode_;
  };

  /// To be called after a collective call of some PEs: everything before it counts as ordered.
  void met() {
    if (order_) order_->everybody_met();
  }
  /// To be called after Runtime::recover(): everything found is forgotten.
  void recovered();

  /// To be called at the end. Warns if no kernel ran that reports its calls: such a program looks
  /// as right as one in which nothing was found.
  void warn_if_unused() const;

 private:
  static CheckMode& of(void* self) { return *static_cast<CheckMode*>(self); }
  void watch_order(LiveGroup& group);
  void found(const UsageError& error, int pe);
  void tell(const std::string& sentence);
  static void observe(const simt::PlainAccess& access);
  bool concerns(const void* address) const;

  SymmetricHeap& heap_;
  ContextTable& contexts_;
  const Target target_;
  const Log log_;
  std::vector<std::byte*> mapped_;
  const CallHooks hooks_;
  mutable std::mutex mutex_;  // guards what follows
  std::set<std::tuple<uint32_t, Call, CallSide, uint64_t>>
      told_;  // mistake, range of a call, place
  std::optional<checking::OrderChecker> order_;
};

}  // namespace peal
