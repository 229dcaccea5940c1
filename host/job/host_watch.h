// SPDX-License-Identifier: Apache-2.0
//
// Which PEs of other hosts are lost, when their own host does not tell.
//
//   host A: PE 0 1   --asks-->   host B: PE 2 3   --asks-->   host C: PE 4 5   --asks-->  host A
//
// The first live PE of each host asks all PEs of the next host, four times a second. A process that
// has ended is told of by its host's network ("port unreachable"), by its neighbours there, and by
// a connection to it that hangs up, after which it answers no more. When no PE of a host has
// answered for the limit, the host, or the network to it, is taken for lost with all of its PEs. A
// host of which no PE was ever heard is not: there may be no way for UDP.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "host/base/place.h"
#include "host/job/udp_channel.h"

namespace peal {

/// Used by one thread.
class HostWatch {
 public:
  using Time = UdpChannel::Time;
  static constexpr Time kAskAgain = std::chrono::milliseconds(250);
  static constexpr Time kLeastLimit = 8 * kAskAgain;
  /// To one whose connection has hung up, before it is taken for lost.
  static constexpr int kQuestions = 2;

  using HeardOf = std::function<UdpChannel::Heard(int pe)>;

  /// `limit` of silence, at least kLeastLimit; zero: silence is no loss.
  HostWatch(std::span<const Place> places, int rank, Time limit);

  /// Whom this PE has to ask now, of those that are `live` (in order, this one among them): all of
  /// the next host, and one of each other host of which nobody was heard yet, so that it is known
  /// when its turn comes.
  std::vector<int> to_ask(const std::vector<int>& live, Time now, const HeardOf& heard);
  /// A connection to `pe` of another host has hung up: its process has ended unless it answers.
  void hung_up(int pe, Time now) { hung_up_.emplace(pe, HungUp{now}); }
  /// A PE that is lost, and whether its host is silent: else its process has ended.
  using Loss = std::pair<int, bool>;
  /// The lost among the PEs that this one asks, and among those that hung up. Silence counts from
  /// when it began to ask their host.
  std::vector<Loss> losses(const std::vector<int>& live, Time now, const HeardOf& heard);
  /// True for the PE that speaks for its host.
  bool speaks(const std::vector<int>& live) const;

 private:
  struct HungUp {
    /// What comes from then on was sent behind the end of the connection.
    Time counts() const { return since + kAskAgain; }

    Time since;
    int questions = 0;  // of which the answer counts, up to kQuestions
    Time asked_at{0};   // the last of these
  };

  /// The live PEs of the host that this one asks; notes when that became another one.
  std::vector<int> asked(const std::vector<int>& live, Time now);
  /// Those that hung up, and have not answered since.
  std::vector<Loss> ended(const std::vector<int>& live, Time now, const HeardOf& heard);
  int host_of(int pe) const { return hosts_[static_cast<size_t>(pe)]; }

  int rank_;
  Time limit_;
  std::vector<int> hosts_;  // by PE: the first PE of its host
  Time asked_at_{-kAskAgain};
  int asked_host_ = -1;
  Time asked_since_{0};
  std::map<int, HungUp> hung_up_;
};

}  // namespace peal
