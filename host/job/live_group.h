// SPDX-License-Identifier: Apache-2.0
//
// The PEs of a job that still take part. While all do, collective calls are the bootstrap's; once
// some are masked, which its star would not survive, they go over the channel, from each to each:
//
//   generation 0: bootstrap | mask | generation n (n PEs masked): call 0, call 1, ...
//
// The entry of a masked PE in an allgather is that of the first live one, so that a comparison of
// all entries finds none that differs because of it.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "base/run_clock.h"
#include "host/base/exception.h"
#include "host/base/place.h"
#include "host/bootstrap.h"
#include "host/job/channel.h"

namespace peal {

/// A collective call over the channel: of which group, its number there, and the PEs that make it.
struct ChannelCall {
  uint64_t group;  // generation, or the id of a MemberGroup
  uint64_t number;
  std::vector<int> pes;
};

/// A group that may lose members. One thread makes the collective calls; lost() and deliver() come
/// from the watcher.
class LiveGroup : public Bootstrap {
 public:
  /// Collective. `deadline` is that of each call over the channel.
  LiveGroup(std::unique_ptr<Bootstrap> all, std::chrono::milliseconds deadline);

  int rank() const override { return all_->rank(); }
  int size() const override { return all_->size(); }
  void allgather(std::span<const std::byte> mine, std::span<std::byte> all) override;
  void barrier() override;
  void end() override;
  [[noreturn]] void abort(const std::string& reason) override;

  /// What `call.pes` contribute, in their order; this PE is one of them. Not collective for others.
  void exchange(const ChannelCall& call, std::span<const std::byte> mine, std::span<std::byte> all);

  /// By PE.
  const std::vector<Place>& places() const { return places_; }
  const Channel& channel() const { return channel_; }

  /// The process of `pe` has ended. True when that is news.
  bool lost(int pe);
  /// PEs that ended and are not masked, in the order in which that was noticed.
  std::vector<int> lost_pes() const;
  /// Waits at most `time` until each of `pes` has ended; answers one that has not, or -1.
  int await_lost(const std::vector<int>& pes, std::chrono::milliseconds time) const;
  /// A part of another PE's contribution to a call.
  void deliver(Message message);

  /// From now on `pe` takes no part.
  void mask(int pe);
  bool masked(int pe) const;
  std::vector<int> masked_pes() const;
  std::vector<int> live_pes() const;      // neither lost nor masked, as far as is known here
  std::vector<int> unmasked_pes() const;  // the same on all PEs that masked the same

 private:
  enum class State : uint8_t { kLive, kLost, kMasked };
  using Call = std::tuple<uint64_t, uint64_t, int>;  // group, number, from
  struct Part {
    uint64_t total = 0;
    std::vector<std::byte> bytes;
    bool complete() const { return bytes.size() == total; }
  };
  using Lock = std::unique_lock<std::mutex>;
  using Clock = RunClock;

  std::vector<int> in_state(State first, State last) const;
  std::vector<int> in_state(State state) const { return in_state(state, state); }
  void exchange_unmasked(std::span<const std::byte> mine, std::span<std::byte> all);
  void tell(Lock& lock, const ChannelCall& call, int pe, std::span<const std::byte> mine);
  void collect(Lock& lock, const ChannelCall& call, int pe, std::span<std::byte> to);
  bool told(const ChannelCall& call, int pe) const;
  /// Throws when `pe` can be waited for no longer.
  void check_still_waiting(int pe, Clock::time_point end) const;

  std::unique_ptr<Bootstrap> all_;
  std::chrono::milliseconds deadline_;
  std::vector<Place> places_;
  Channel channel_;

  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::vector<State> states_;  // by PE
  std::vector<int> lost_;      // in order
  uint64_t generation_ = 0;    // how many are masked
  uint64_t calls_ = 0;         // over the channel, in this generation
  std::map<Call, Part> inbox_;
  std::set<int> collected_;  // of the call under way
  std::optional<Error> broken_;
};

}  // namespace peal
