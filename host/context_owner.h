// SPDX-License-Identifier: Apache-2.0
//
// What stands behind one device context: its queues, if it has any, and its slot in the tables.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "device/context.h"
#include "host/device_tables.h"
#include "host/failure.h"
#include "host/transport/queues.h"

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

/// Owns one context.
class ContextOwner {
 public:
  /// Which context this is: its slot in the tables, and its number among all that were ever made.
  struct Name {
    uint32_t slot;
    uint64_t serial;
  };

  /// `queues` may be null: then every peer is reached directly. `fields` is complete but for what
  /// the queues and the slot say. `tables` and
  /// `words`, the slot's, outlive the context.
  ContextOwner(std::unique_ptr<Queues> queues, DeviceTables& tables, ContextWords& words, Name name,
               const ContextFields& fields);

  /// What kernels are given.
  const ContextFields& fields() const { return fields_; }
  uint64_t serial() const { return serial_; }
  /// What its queues look like; null where there are none.
  const Queues* queues() const { return queues_.get(); }
  Queues* queues() { return queues_.get(); }
  /// Of the queues and the owner itself.
  size_t bytes() const;

  /// What kernels of this context ran into, usage and queues, the earliest first.
  std::vector<Failure> failures() const;

  /// Ends every wait of the context, with why.status; the first reason is kept. Thread-safe.
  void stop(const Failure& why);
  /// Why its waits were ended, if they were by stop().
  std::optional<Failure> stopped() const;

  /// Takes on what the tables show since some PEs are masked: operations on those are refused,
  /// barriers are among `count` PEs of which this is the `rank`-th. Changes fields().
  void leave_out(std::span<const int> masked, uint32_t rank, uint32_t count);

  /// The queues to `pe` could not be connected: every operation on them answers kQueueError.
  void give_up_link(uint32_t pe, const std::string& why, uint64_t time_ns);

  /// What recovery has to do for a queue: nothing, connect it again, or take its link back to where
  /// there was none.
  enum class Remedy : uint8_t { kNone, kReconnect, kForget };
  /// What each queue needs, as far as this end tells. One for each queue that this PE has.
  std::vector<Remedy> remedies() const;
  /// The two halves of recovery, between which all PEs meet. `remedies` are those that both ends
  /// agreed on. Both are for a time without kernels. What was connected again is to be proven and
  /// opened.
  void reset_queues(std::span<const Remedy> remedies);
  void start_again(std::span<const Remedy> remedies, uint32_t generation, uint64_t sync_epoch);
  uint64_t sync_epoch() const { return tables_.sync_epoch(slot_); }

  /// One line for each queue: where it stands. Nothing where there are none.
  std::string describe_queues() const;
  /// How the NIC got to know their memory. Nothing where there are none.
  std::string describe_registration() const;

 private:
  std::unique_ptr<Queues> queues_;
  DeviceTables& tables_;
  ContextWords& words_;
  uint32_t slot_;
  uint64_t serial_;
  ContextFields fields_;
  mutable std::mutex mutex_;
  std::optional<Failure> stopped_;
  std::map<uint32_t, Failure> unlinked_;  // by PE: why
};

}  // namespace peal
