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

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "base/run_clock.h"
#include "host/base/exception.h"
#include "host/base/place.h"
#include "host/bootstrap.h"
#include "host/job/channel.h"
#include "host/job/departure.h"

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
  /// Collective. `deadline` is that of each call over the channel, `interface` what PEs of other
  /// hosts reach this one by (Channel).
  LiveGroup(std::unique_ptr<Bootstrap> all, std::chrono::milliseconds deadline,
            const std::string& interface = {});

  int rank() const override { return all_->rank(); }
  int size() const override { return all_->size(); }
  void name_calls(std::string_view name) override;
  void allgather(std::span<const std::byte> mine, std::span<std::byte> all) override;
  void barrier() override;
  void end(const std::function<bool()>& go_on = {}) override;
  void quit(const std::string& how) noexcept override { all_->quit(how); }
  std::vector<int> connections() const override { return all_->connections(); }
  [[noreturn]] void abort(const std::string& reason) override;

  /// Tells the others that this PE leaves and how. In order: returns when all of them have come to
  /// their end, however long that takes, while their processes run; throws kPeerLost, kTimeout,
  /// and tells the others why.
  /// `still_waiting` is called each time that the deadline has passed. Not in order: waits for
  /// nobody, but 100 ms for room in the others' sockets.
  void leave(const Departure& how, const std::function<void()>& still_waiting);
  /// Tells the others that this PE waits for all in another group, and of whose loss it has heard:
  /// one of another host may not know of that yet. Waits as what is not in order.
  void leave_for_rejoin() const;
  /// Tells the others, within 100 ms; those of other hosts need not hear. For signal handlers, too.
  void announce(Departure::How how, int code, std::string_view text) const noexcept;

  /// What `call.pes` contribute, in their order; this PE is one of them. Not collective for others.
  void exchange(const ChannelCall& call, std::span<const std::byte> mine, std::span<std::byte> all);

  /// One for each PE, in their order.
  const std::vector<Place>& places() const { return places_; }
  const Channel& channel() const { return channel_; }

  /// The process of `pe` has ended. True when that is news.
  bool lost(int pe);
  /// PEs that ended and are not masked, in the order in which that was noticed.
  std::vector<int> lost_pes() const;
  /// `pe` has told that it leaves, or the system how it has ended: what is told last counts.
  void left(int pe, Departure how);
  /// A Message::Kind::kLeft. Answers the PEs that it says are lost, in the order of their loss.
  std::vector<int> hear_leaving(const Message& message);
  /// Tells PEs of other hosts than its own, which hear by themselves, that `pe` is lost and how it
  /// has left: each of them once, and those that have no room with the next call.
  void pass_on_loss(int pe);
  /// A Message::Kind::kLost: the PE that is lost. Nothing where its sender is lost itself, or where
  /// it is of this PE's host, of which this PE knows better: a network that was cut may bring old
  /// news.
  std::optional<int> hear_of_loss(const Message& message);
  /// True of a PE that is neither lost nor masked.
  bool is_live(int pe) const;
  /// True of a PE that lives and has not told that it leaves.
  bool works(int pe) const;
  /// This PE leaves. Before that nobody who leaves in order has come to its end: one whose process
  /// has ended has died.
  bool leaves() const { return leaving_; }
  /// "PE 2", of another host "PE 2 on node2".
  std::string name_of(int pe) const;
  /// How `pe` has left, as far as is known.
  std::optional<Departure> departure(int pe) const;
  /// PEs that live, and have told that they leave in order, or have not.
  std::vector<int> left_in_order() const { return others_that_live(true); }
  std::vector<int> not_left() const { return others_that_live(false); }
  /// In this time the end of a process is noticed, on another host as well: a kernel hears of it
  /// from its NIC, and the bootstrap from its connection, before the operating system tells of it.
  static constexpr std::chrono::milliseconds kUntilNoticed{2000};
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
  std::vector<int> others_that_live(bool and_left) const;
  std::vector<int> others_that_live(const Lock& held, bool and_left) const;
  /// The first PE that is lost, and how it left, as far as that is known. Waits at most `time` for
  /// one.
  std::optional<std::pair<int, Departure>> first_loss(std::chrono::milliseconds time = {}) const;
  template <class Exchange>
  void by_all(const Exchange& exchange) const;
  void exchange_unmasked(std::span<const std::byte> mine, std::span<std::byte> all);
  void tell(Lock& lock, const ChannelCall& call, int pe, std::span<const std::byte> mine);
  void collect(Lock& lock, const ChannelCall& call, int pe, std::span<std::byte> to);
  bool told(const ChannelCall& call, int pe) const;
  /// Throws when `pe` can be waited for no longer.
  void check_still_waiting(int pe, Clock::time_point end) const;
  void await_departures(const std::function<bool()>& go_on);
  /// Calls send(pe) for the other PEs, for `time` again where one has no room. Allocates nothing.
  template <class Send>
  void tell_all(const Send& send, std::chrono::milliseconds time) const;
  /// May be called in a signal handler.
  void say_last(const Leaving& leaving) const noexcept;
  /// Until PEs of other hosts have what was sent to them: this one's end would lose it.
  void await_sent() const;

  std::unique_ptr<Bootstrap> all_;
  std::string name_;  // of the calls
  std::chrono::milliseconds deadline_;
  std::vector<Place> places_;
  Channel channel_;

  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::vector<State> states_;            // by PE
  std::vector<int> lost_;                // in order
  std::map<int, Departure> departures_;  // by PE
  uint64_t generation_ = 0;              // how many are masked
  uint64_t calls_ = 0;                   // over the channel, in this generation
  std::map<Call, Part> inbox_;
  std::set<int> collected_;                  // of the call under way
  std::set<std::pair<int, int>> passed_on_;  // who was told, of whom
  std::optional<Error> broken_;
  std::atomic<bool> leaving_{false};  // with those that have left
};

/// Some PEs of a job, who make collective calls without the others, over the channel. Ranks are
/// positions in `pes`. Made by all of them, with an `id` that no other group of theirs
/// has or had, above all counts of masked PEs.
class MemberGroup : public Bootstrap {
 public:
  MemberGroup(LiveGroup& job, std::vector<int> pes, uint64_t id);

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(pes_.size()); }
  void allgather(std::span<const std::byte> mine, std::span<std::byte> all) override;
  void barrier() override;
  [[noreturn]] void abort(const std::string& reason) override;

 private:
  LiveGroup& job_;
  std::vector<int> pes_;
  uint64_t id_;
  uint64_t calls_ = 0;
  int rank_;
};

}  // namespace peal
