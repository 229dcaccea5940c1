// SPDX-License-Identifier: Apache-2.0
//
// What stands behind one device context: its links, if it has any, and its slot in the tables.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "device/context.h"
#include "host/contexts/debug.h"
#include "host/contexts/device_tables.h"
#include "host/contexts/link_machine.h"
#include "host/contexts/usage_text.h"
#include "host/failures/failure.h"

namespace peal {

/// What the host and the kernels of one context tell each other, in memory that both reach at once.
struct ContextWords {
  uint32_t stop;   // a Status; ends every wait
  uint32_t alarm;  // 1: an error record has been written

  void clear() {
    store_relaxed<Reach::kSystem>(&stop, 0u);
    store_relaxed<Reach::kSystem>(&alarm, 0u);
  }
};

/// Owns the queues of one context. Thread-safe but for leave_out() and recovery.
class ContextOwner {
 public:
  /// Which context this is: its slot in the tables, and its number among all that were ever made.
  struct Name {
    uint32_t slot;
    uint64_t serial;
  };

  /// `links` may be null: then every peer is reached directly. `fields` is complete but for what
  /// the queues and the slot say. `tables` and `words`, the slot's, outlive the context.
  ContextOwner(std::unique_ptr<LinkMachine> links, DeviceTables& tables, ContextWords& words,
               Name name, const ContextFields& fields);

  /// What kernels are given.
  const ContextFields& fields() const { return fields_; }
  uint32_t slot() const { return name_.slot; }
  uint64_t serial() const { return name_.serial; }
  /// Null where there is no NIC.
  LinkMachine* links() const { return links_.get(); }
  /// The memory of the queues and of the owner itself.
  size_t bytes() const;

  /// What kernels of this context ran into, usage and queues, the earliest first.
  std::vector<Failure> failures(const PlaceOf& place_of) const;

  /// True if kernels that look at their calls have run on it (PEAL_CHECK).
  bool checked() const { return tables_.checked(name_.slot); }
  /// What its kernels wait for, and have waited for in vain.
  DeviceTables::Waits waits() const { return tables_.waits(name_.slot); }
  /// Which of the queues to its peer a SendQueue of this context is; -1 for none.
  int queue_number(const void* queue) const;

  /// Ends every wait of the context, with why.status; the first reason is kept.
  void stop(const Failure& why);
  /// Why its waits were ended, if they were by stop().
  std::optional<Failure> stopped() const;
  /// Shows kernels that wait for nothing what the stop word says: whoever writes that calls it.
  void show_end() const;
  /// True when its waits have been ended, by stop() or because a PE was lost.
  bool ended() const { return load_relaxed<Reach::kSystem>(&words_.stop) != 0; }

  /// The link to `pe` could not be made.
  void fail_link(uint32_t pe, const Failure& why);

  /// Takes on what the tables show since some PEs are masked: operations on those are refused,
  /// barriers are among `count` PEs of which this is the `rank`-th. Changes fields().
  void leave_out(std::span<const int> masked, uint32_t rank, uint32_t count);

  /// The end of a recovery: forgets what was wrong. For a time without kernels.
  void start_again(uint64_t sync_epoch);
  uint64_t sync_epoch() const { return tables_.sync_epoch(name_.slot); }

  /// One line for each queue: where it stands. Nothing where there are none.
  std::string describe_queues() const;

 private:
  std::unique_ptr<LinkMachine> links_;
  DeviceTables& tables_;
  ContextWords& words_;
  Name name_;
  ContextFields fields_;
  mutable std::mutex mutex_;
  std::optional<Failure> stopped_;  // guarded by mutex_
  const DebugItem listed_{peal_debug_contexts, &fields_};
};

}  // namespace peal
